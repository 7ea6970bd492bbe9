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
PAPER_METRICS = ("regret", "reliability", "utilization")
_AS_BASELINE = {"mean": 1.0, "ci_low": None, "ci_high": None}


def summarise_study(results: dict[str, Any]) -> dict[str, Any]:
    """What the page shows, as plain JSON values.

    Args:
        results: the content of paper.json, see `mfcp.paper.results.gather`.

    Returns:
        `study`, `example`, `deviations`, `retired`, `looked_at`, `speed`, `goals`, `cpu_seconds` and `environment` as
        they are in paper.json;
        `headline`, the rows of the page's first tables and the ratios of its sentences, per log;
        `errors`, per log and method of the first experiment its errors of log time;
        `data`, per log its number of tasks, families and clusters, what is emulated, and the clusters of its settings;
        `ratios`, per experiment its title, its changes of params.yaml and, per method and column, the ratio of its
        penalised excess to the baseline's on held-out settings (on all settings where none is held out);
        `metrics`, per experiment that shows the paper's three metrics, these per method and column.
    """
    kept = ("study", "example", "deviations", "retired", "looked_at", "speed", "cpu_seconds", "environment")
    experiments = results["experiments"]
    return {
        **{key: results[key] for key in kept},
        "goals": [_goal(goal) for goal in results["goals"]],
        "data": {name: _data(name, data, results["study"]["held_out"]) for name, data in results["data"].items()},
        "ratios": {name: _ratios(experiment) for name, experiment in experiments.items()},
        "metrics": {
            name: _metrics(experiment) for name, experiment in experiments.items() if experiment["paper_metrics"]
        },
        "headline": _headline(results),
        "errors": {
            entry["data"]: held_out_or_all(entry["errors"]) for entry in next(iter(experiments.values()))["entries"]
        },
    }


def _headline(results: dict[str, Any]) -> dict[str, Any]:
    """The tables and the sentences of the page, from the experiment that the study names."""
    wanted = results["headline"]
    entries = results["experiments"][wanted["experiment"]]["entries"]
    rows = []
    for title, labels in wanted["rows"].items():
        rows.append({"title": title, "of": labels, "cells": [_cell(entry, labels) for entry in entries]})
    follows = [
        {
            "text": found["text"],
            "ratios": {entry["data"]: _interval(held_out_or_all(entry["findings"][k]["ratios"])) for entry in entries},
        }
        for k, found in enumerate(wanted["follows"])
    ]
    parts = [
        {"predictors": title, "log": entry["data"], "cells": {r: _to_baseline(entry, m) for r, m in methods.items()}}
        for entry in entries
        for title, methods in wanted["parts"].items()
    ]
    return {
        "logs": [entry["data"] for entry in entries],
        "rows": rows,
        "follows": follows,
        "parts": parts,
        "metrics_of": wanted["metrics_of"],
    }


def _cell(entry: dict[str, Any], labels: list[str]) -> dict[str, Any]:
    """The ratio of one method; of several, of that with the least excess where methods are chosen."""
    label = min(labels, key=lambda name: entry["chosen_on"].get(name, math.inf))
    return {"label": label, "ratio": _to_baseline(entry, label)}


def _to_baseline(entry: dict[str, Any], label: str) -> dict[str, Any] | None:
    """The ratio of a method's penalised excess to the baseline's: of the baseline itself 1."""
    return _interval(held_out_or_all(entry["tables"])[label].get(RATIO) or _AS_BASELINE)


def _metrics(experiment: dict[str, Any]) -> dict[str, Any]:
    """The paper's metrics: per method and column mean and deviation of each, beside what the paper prints."""
    entries = [held_out_or_all(entry["tables"]) for entry in experiment["entries"]]
    columns = [{"data": entry["data"], "value": entry["value"]} for entry in experiment["entries"]]
    rows = {
        label: [
            [[own[label][name]["mean"], own[label][name]["std"]] for name in PAPER_METRICS] if label in own else None
            for own in entries
        ]
        for label in dict.fromkeys(label for own in entries for label in own)
    }
    titled = {key: experiment[key] for key in ("title", "swept", "printed")}
    return {**titled, "columns": columns, "rows": rows}


def held_out_or_all(tables: dict[str, Any]) -> Any:
    """The entry of held-out settings, else of all settings together."""
    return tables[HELD_OUT] if HELD_OUT in tables else tables.get(POOLED)


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


def _data(name: str, data: dict[str, Any], held_out: dict[str, Any]) -> dict[str, Any]:
    """What a page says of a log, and how many of its groups a draw of test tasks has."""
    pool = {key: data["pool"][key] for key in ("tasks", "source_tasks", "families", "clusters", "emulated")}
    by_family = pool["families"] >= FEWEST_FAMILIES
    groups = pool["families"] if by_family else pool["source_tasks"]
    tested = held_out["named"].get(name) or max(1, round(held_out["families"] * groups))
    held = {"tested": tested, "groups": groups, "kind": "families" if by_family else "source tasks"}
    split_by = "family" if by_family else "source task"
    return {**pool, "settings": data["settings"], "split_by": split_by, "held_out": held}


def _ratios(experiment: dict[str, Any]) -> dict[str, Any]:
    columns, rows = [], dict[str, list[dict[str, Any] | None]]()
    for number, entry in enumerate(experiment["entries"]):
        columns.append({"data": entry["data"], "value": entry["value"], "missing": entry["missing"]})
        for label, metrics in held_out_or_all(entry["tables"]).items():
            rows.setdefault(label, [None] * number).append(_interval(metrics.get(RATIO)))
        for ratios in rows.values():
            ratios += [None] * (number + 1 - len(ratios))
    best = [_best(entry) for entry in experiment["entries"]]
    titled = {key: experiment[key] for key in ("title", "about", "swept", "changes", "settings", "figure")}
    return {**titled, "columns": columns, "rows": rows, "best": best}
