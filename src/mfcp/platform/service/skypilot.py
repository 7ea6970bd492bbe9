"""SkyPilot's admin policy over HTTP: a task's candidates in the order in which the release would have them.

SkyPilot posts a request as JSON within a JSON string, its task as YAML, and takes the same back. A task says what it is
in the variable MFCP_TASK, a row of table tasks as JSON; each candidate of `resources.any_of` is a cluster by its label
`mfcp-cluster`, else by the last word of its `infra`, else by its `region`. A request without either is left as it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd
import yaml

from mfcp.border.bounds import Limits
from mfcp.border.json_text import parse_json
from mfcp.border.yaml_text import parse_yaml
from mfcp.data.log.coercion import coerce
from mfcp.data.log.schema import TASKS
from mfcp.data.log.zoo_tasks import with_zoo_models
from mfcp.errors import DataError
from mfcp.platform.service.answers import Answers, AskedExplain

VARIABLE, LABEL = "MFCP_TASK", "mfcp-cluster"


def ordered(body: bytes, answers: Answers, model: type[AskedExplain]) -> bytes:
    """The request with `ordered` in place of `any_of`.

    Args:
        body: as SkyPilot posts it.
        answers: of the release that decides.
        model: that a task's row is checked by.

    Raises:
        DataError: no such request, or a MFCP_TASK that is no task.
    """
    bounds = Limits()
    request = parse_json(body, "body", bounds)
    if isinstance(request, str):
        request = parse_json(request.encode(), "body", bounds)
    if not isinstance(request, dict) or not all(isinstance(request.get(k), str) for k in ("task", "skypilot_config")):
        raise DataError("body: expected a request of SkyPilot's admin policy, with task and skypilot_config as YAML")
    task = parse_yaml(request["task"].encode(), "task", bounds)
    if isinstance(task, dict) and isinstance(task.get("resources"), dict):
        _order(task, answers, model)
    told = {"task": yaml.safe_dump(task, sort_keys=False), "skypilot_config": request["skypilot_config"]}
    return json.dumps(json.dumps(told)).encode()


def _order(task: dict[str, Any], answers: Answers, model: type[AskedExplain]) -> None:
    variables, resources = task.get("envs"), task["resources"]
    text = variables.get(VARIABLE) if isinstance(variables, dict) else None
    wanted = resources.get("any_of")
    if not text or not isinstance(wanted, list):
        return
    row = parse_json(str(text).encode(), VARIABLE, Limits())
    if not isinstance(row, dict):
        raise DataError(f"{VARIABLE}: expected a row of table tasks as a JSON object, got {type(row).__name__}")
    known = {answers.champion.release.cluster_id.index(name): name for name in answers.champion.release.cluster_id}
    clusters = [cluster_of(one) for one in wanted]
    at_hand = [name for name in clusters if name in known.values()]
    if len(set(at_hand)) < 2:
        return
    asked = model.model_validate({**_described(row, task), "clusters": sorted(set(at_hand))})
    (explained,) = json.loads(answers.explain(asked))["explanations"]
    rank = {option["cluster_id"]: place for place, option in enumerate(explained["options"])}
    places = sorted(range(len(wanted)), key=lambda n: (rank.get(clusters[n], len(rank)), n))
    task["resources"] = {
        **{k: v for k, v in resources.items() if k != "any_of"},
        "ordered": [wanted[n] for n in places],
    }


def _described(row: dict[str, Any], task: Mapping[str, Any]) -> dict[str, Any]:
    """The task and its graph, both from the zoo where its model is one of `zoo:`."""
    row = {"task_id": str(task.get("name") or "task"), **row}
    if not str(row.get("model", "")).startswith("zoo:"):
        return {"tasks": [row]}
    frame = pd.DataFrame([row], columns=[column.name for column in TASKS.columns], dtype=object)
    tables = with_zoo_models({"tasks": coerce(TASKS, frame).frame})
    return {name: table.astype(object).where(table.notna(), None).to_dict("records") for name, table in tables.items()}


def cluster_of(candidate: Any) -> str:
    """Which cluster a candidate is; empty where it does not say."""
    if not isinstance(candidate, dict):
        return ""
    labels = candidate.get("labels")
    named = labels.get(LABEL) if isinstance(labels, dict) else None
    infra = str(candidate.get("infra") or "").rsplit("/", 1)[-1]
    return str(named or infra or candidate.get("region") or "")
