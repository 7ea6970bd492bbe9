"""What the decision service takes and what it answers, apart from how that travels."""

from __future__ import annotations

import json
from types import GenericAlias
from typing import Any

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

from mfcp.data.log.schema import EDGES, NODES, SCHEMA, TASKS, Table
from mfcp.data.log.tables import Tables
from mfcp.errors import DataError, InfeasibleError, MfcpError, SettingsError
from mfcp.platform.deciding.explaining import explain
from mfcp.platform.service.champion import Champion
from mfcp.release.decision import Decision, decide, intervals
from mfcp.release.model import Release

_LONGEST = 1000  # characters of a text
_TYPES: dict[str, Any] = {"text": str, "integer": int, "real": float, "time": str}


class Asked(BaseModel):
    """Base of what can be asked: tasks, and the graphs that the service does not know."""

    model_config = ConfigDict(extra="forbid")
    tasks: list[Any]
    nodes: list[Any] = []
    edges: list[Any] = []

    @model_validator(mode="after")
    def _distinct(self) -> Asked:
        seen: set[str] = set()
        for row in self.tasks:
            if row.task_id in seen:
                raise ValueError(f"task_id '{row.task_id}' occurs twice; name every task once")
            seen.add(row.task_id)
        return self

    def tables(self) -> Tables:
        """The rows as tables of the log schema; they were checked, so plain columns do."""
        given = ((TASKS, self.tasks), (NODES, self.nodes), (EDGES, self.edges))
        return {table.name: _table(table, rows) for table, rows in given if rows}


class AskedMatch(Asked):
    """Base of what is matched."""

    gamma: float | None = Field(None, ge=0, le=1, description="least mean reliability; the release's if left out")
    clusters: list[str] | None = Field(
        None, min_length=1, max_length=10_000, description="at hand; all online if left out"
    )
    engine: str = Field("auto", max_length=20, description="auto for the release's rule, else an engine of mfcp solve")


class AskedExplain(AskedMatch):
    """Base of what is explained."""

    only: list[str] | None = Field(None, description="tasks to explain; all if left out")


def asked_models(tasks: int, operators: int) -> tuple[type[Asked], type[AskedMatch], type[AskedExplain]]:
    """The requests as the log schema has their rows, with limits on how many there are."""
    rows: dict[str, Any] = {table.name: GenericAlias(list, (_row(table),)) for table in (TASKS, NODES, EDGES)}
    fields: dict[str, Any] = {"tasks": (rows["tasks"], Field(min_length=1, max_length=tasks))}
    for name in ("nodes", "edges"):
        fields[name] = (rows[name], Field(default=[], max_length=operators, description=SCHEMA[name].meaning))
    return (
        create_model("Predict", __base__=Asked, **fields),
        create_model("Match", __base__=AskedMatch, **fields),
        create_model("Explain", __base__=AskedExplain, **fields),
    )


def _row(table: Table) -> type[BaseModel]:
    """A row of a table; columns that the schema does not know are ignored, as everywhere."""
    fields: dict[str, Any] = {}
    for column in table.columns:
        how: dict[str, Any] = {"description": f"{column.meaning}{f', {column.unit}' if column.unit else ''}"}
        if column.kind == "text":
            how |= {"max_length": _LONGEST} | ({"pattern": f"^({'|'.join(column.values)})$"} if column.values else {})
        else:
            how |= {"gt" if column.above else "ge": column.low, "le": column.high}
            how |= {"allow_inf_nan": False} if column.kind == "real" else {}
        kind = _TYPES[column.kind]
        if column.nullable:
            fields[column.name] = (kind | None, Field(None, **how))
        else:
            fields[column.name] = (kind, Field(min_length=1, **how) if column.kind == "text" else Field(**how))
    return create_model(f"{table.name.capitalize()}Row", __config__=ConfigDict(extra="ignore"), **fields)


def _table(table: Table, rows: list[Any]) -> pd.DataFrame:
    kinds = {"text": object, "time": object, "integer": np.float64, "real": np.float64}
    return pd.DataFrame(
        {c.name: np.array([getattr(row, c.name) for row in rows], dtype=kinds[c.kind]) for c in table.columns},
        copy=False,
    )


def client_error(error: MfcpError) -> bool:
    """Whether another request would do better, not another moment."""
    return isinstance(error, DataError | InfeasibleError | SettingsError)


class Answers:
    """Answers of the service; each takes tens of milliseconds and is of one release."""

    def __init__(self, champion: Champion, *, time_limit: float) -> None:
        self.champion, self.time_limit = champion, time_limit

    def predict(self, asked: Asked) -> bytes:
        """Time and reliability of every task on every cluster, with 95 % intervals."""
        release, tables = self.champion.release, asked.tables()
        numbers = {name: _plain(values[0].T) for name, values in intervals(release.predict(tables)).items()}
        answer = {
            **release.provenance(tables),
            "tasks": [
                {
                    "task_id": row.task_id,
                    "clusters": [
                        {"cluster_id": name} | {key: values[j][i] for key, values in numbers.items()}
                        for i, name in enumerate(release.cluster_id)
                    ],
                }
                for j, row in enumerate(asked.tasks)
            ],
        }
        return _bytes(answer)

    def match(self, asked: AskedMatch) -> bytes:
        """One cluster for every task, with a bound of what any plan can reach."""
        return _bytes(_plan(*self._decided(asked)[:2]))

    def explain(self, asked: AskedExplain) -> bytes:
        """The same as match, and why each task goes where it goes, and what would change that."""
        decision, offline, release = self._decided(asked)
        told = explain(
            decision.belief,
            decision.assignment,
            task_id=decision.task_id,
            cluster_id=decision.clusters,
            price=release.price,
            tasks=asked.only,
        )
        prices = {"cluster": told[0].prices.cluster, "reliability": told[0].prices.reliability} if told else {}
        explained = [
            {"task_id": one.task_id, "options": [vars(option) for option in one.options], "text": one.text}
            for one in told
        ]
        return _bytes(_plan(decision, offline) | {"prices": prices, "explanations": explained})

    def _decided(self, asked: AskedMatch) -> tuple[Decision, list[str], Release]:
        release, offline = self.champion.release, self.champion.offline
        if asked.clusters is not None and (unknown := sorted(set(asked.clusters) - set(release.cluster_id))):
            known = ", ".join(release.cluster_id)
            raise DataError(f"clusters: unknown '{unknown[0][:80]}'; release {release.version} knows {known}")
        at_hand = set(release.cluster_id if asked.clusters is None else asked.clusters) - offline
        if not at_hand:
            raise MfcpError(f"no cluster is online of {', '.join(asked.clusters or release.cluster_id)}")
        decision = decide(
            release,
            asked.tables(),
            gamma=asked.gamma,
            clusters=at_hand,
            engine=asked.engine,
            time_limit=self.time_limit,
        )
        return decision, sorted(offline & set(release.cluster_id)), release


def _plan(decision: Decision, offline: list[str]) -> dict[str, Any]:
    numbers = {name: _plain(values) for name, values in decision.chosen().items()}
    return {
        **decision.summary(),
        "offline": offline,
        "tasks": [
            {"task_id": task, "cluster_id": cluster} | {name: values[j] for name, values in numbers.items()}
            for j, (task, cluster) in enumerate(zip(decision.task_id, decision.cluster_id, strict=True))
        ],
    }


def _plain(values: Any) -> Any:
    """Nested lists, None where nothing is known."""
    return np.where(np.isnan(values), np.array(None), values).tolist()


def _bytes(answer: dict[str, Any]) -> bytes:
    """JSON, made where it keeps no other request waiting."""
    return json.dumps(answer, allow_nan=False).encode()
