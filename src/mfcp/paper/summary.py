"""The part of paper.json that the results page shows: small enough to live beside the sources."""

from __future__ import annotations

import math
from typing import Any

from mfcp.data.pool.splits import FEWEST_FAMILIES
from mfcp.evaluation.compare import POOLED
from mfcp.evaluation.metric_table import BASELINE
from mfcp.paper.results import HELD_OUT
from mfcp.paper.study_file import BASELINES, OURS

RATIO = f"vs_{BASELINE}"
_AS_BASELINE = {"mean": 1.0, "ci_low": None, "ci_high": None}


def summarise_study(results: dict[str, Any]) -> dict[str, Any]:
    """What the page shows, as plain JSON values.

    Args:
        results: the content of paper.json, see `mfcp.paper.results.gather`.

    Returns:
        `study`, `example`, `deviations`, `looked_at`, `speed`, `goals`, `cpu_seconds` and
        `environment` as they are in paper.json;
        `headline`, the rows of the page's first table and the ratios of its sentences, per log;
        `errors`, per log and method of the first experiment its errors of log time;
        `data`, per log its number of tasks, families and clusters, what is emulated, and the clusters of its settings;
        `ratios`, per experiment its title, its changes of params.yaml and, per method and column, the ratio of its
        penalised excess to the baseline's on held-out settings (on all settings where none is held out).
    """
    kept = ("study", "example", "deviations", "looked_at", "speed", "cpu_seconds", "environment")
    return {
        **{key: results[key] for key in kept},
        "study": results["study"] | {"figure": _drawn(results)},
        "goals": [_goal(goal) for goal in results["goals"]],
        "data": {name: _data(data) for name, data in results["data"].items()},
        "ratios": {name: _ratios(experiment) for name, experiment in results["experiments"].items()},
        "headline": _headline(results),
        "errors": {
            entry["data"]: held_out_or_all(entry["errors"])
            for entry in next(iter(results["experiments"].values()))["entries"]
        },
    }


def _headline(results: dict[str, Any]) -> dict[str, Any]:
    """The table and the sentences of the page, from the experiment that the study names."""
    wanted = results["headline"]
    entries = results["experiments"][wanted["experiment"]]["entries"]
    rows = []
    for title, labels in wanted["rows"].items():
        cells = []
        for entry in entries:
            label = min(labels, key=lambda name: entry["chosen_on"].get(name, math.inf))
            cells.append(
                {"label": label, "ratio": _interval(held_out_or_all(entry["tables"])[label].get(RATIO) or _AS_BASELINE)}
            )
        rows.append({"title": title, "of": labels, "cells": cells})
    follows = [
        {
            "text": found["text"],
            "ratios": {entry["data"]: _interval(held_out_or_all(entry["findings"][k]["ratios"])) for entry in entries},
        }
        for k, found in enumerate(wanted["follows"])
    ]
    settings = sorted({name for entry in entries for name in entry["tables"] if name not in (POOLED, HELD_OUT)})
    return {"logs": [entry["data"] for entry in entries], "rows": rows, "follows": follows, "settings": settings}


def held_out_or_all(tables: dict[str, Any]) -> Any:
    """The entry of held-out settings, else of all settings together."""
    return tables[HELD_OUT] if HELD_OUT in tables else tables.get(POOLED)


def _drawn(results: dict[str, Any]) -> list[str]:
    """The methods of the page's figure."""
    study, first = results["study"], next(iter(results["experiments"].values()))
    return [*dict.fromkeys([*first["figure"], *study["baselines"], *study["ours"], *_against(results)])]


def _against(results: dict[str, Any]) -> list[str]:
    """The methods that goals compare with by their label."""
    return [goal["against"] for goal in results["goals"] if goal["against"]]


def _best(entry: dict[str, Any]) -> dict[str, Any]:
    """The best of ours and of the baselines, and the ratio of their penalised excess."""
    ratio = held_out_or_all(entry["best_ratios"].get("penalised_excess", {}))
    return {OURS: entry["best"].get(OURS), BASELINES: entry["best"].get(BASELINES), "ratio": _interval(ratio)}


def _goal(goal: dict[str, Any]) -> dict[str, Any]:
    named = ("text", "experiment", "data", "value", "metric", "method", "against", "at_most", "p_below", "met")
    values = {key: _interval(held_out_or_all(goal[key])) for key in ("ratios", "beyond")}
    return {key: goal[key] for key in named} | {"ratio": values["ratios"], "beyond": values["beyond"]}


def _interval(value: dict[str, Any] | None) -> dict[str, Any] | None:
    return value and {key: value[key] for key in ("mean", "ci_low", "ci_high", "p") if key in value}


def _data(data: dict[str, Any]) -> dict[str, Any]:
    pool = {key: data["pool"][key] for key in ("tasks", "families", "clusters", "emulated")}
    split_by = "family" if pool["families"] >= FEWEST_FAMILIES else "source task"
    return {**pool, "settings": data["settings"], "split_by": split_by}


def _ratios(experiment: dict[str, Any]) -> dict[str, Any]:
    columns, rows = [], dict[str, list[dict[str, Any] | None]]()
    for number, entry in enumerate(experiment["entries"]):
        columns.append({"data": entry["data"], "value": entry["value"], "missing": entry["missing"]})
        for label, metrics in held_out_or_all(entry["tables"]).items():
            rows.setdefault(label, [None] * number).append(_interval(metrics.get(RATIO)))
        for ratios in rows.values():
            ratios += [None] * (number + 1 - len(ratios))
    best = [_best(entry) for entry in experiment["entries"]]
    titled = {key: experiment[key] for key in ("title", "swept", "changes")}
    return {**titled, "columns": columns, "rows": rows, "best": best}
