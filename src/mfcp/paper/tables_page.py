"""The second results page, docs/results/tables.md: every table and goal of a study, from its summary alone."""

from __future__ import annotations

from typing import Any

from mfcp.evaluation.metric_table import BASELINE
from mfcp.paper.study_file import BASELINES, OURS
from mfcp.paper.wording import listed, markdown, met, number, paragraph

RATIOS = "ratios.png"
SWEPT = {"tasks": "N", "zeta_floor": "floor of zeta"}


def tables_page(summary: dict[str, Any]) -> str:
    """The page as Markdown; the same summary gives the same text."""
    lines = [
        "# Tables of the study",
        "",
        paragraph(
            "[The results](../results.md) say what is measured. A table shows the ratio of each method's penalised",
            "excess to that of TSM, on settings that were not for tuning; `ours` and `baseline` mark the methods that",
            "the best of each is chosen from, `ceiling` those that know what no method can. But for the first table,",
            "a seed splits the tasks that are not held out for good: 55 % to learn from, 20 % for validation, the rest",
            "to test on; so its test tasks are other ones under every seed.",
        ),
        "",
        *_ratio_tables(summary),
        *_errors(summary),
        *_goals(summary),
        *_example(summary["example"]),
        *_data(summary),
        *_looked_at(summary),
        *_deviations(summary),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _ratio_tables(summary: dict[str, Any]) -> list[str]:
    """A table per experiment, and where it shows the paper's metrics a second one."""
    study, lines = summary["study"], list[str]()
    marks = {kind: f" ({word})" for kind, word in ((OURS, "ours"), (BASELINES, "baseline"), ("ceilings", "ceiling"))}
    mark = {label: word for kind, word in marks.items() for label in study[kind]}
    for name, experiment in summary["ratios"].items():
        columns, swept = experiment["columns"], experiment["swept"]
        rows = [
            [f"`{label}`{mark.get(label, '')}", *(number(ratio, 2) for ratio in ratios)]
            for label, ratios in experiment["rows"].items()
            if label != BASELINE
        ]
        table = markdown(["ratio to TSM", *(_column(column, swept) for column in columns)], rows)
        lines += [f"## {experiment['title']}", "", *_notes(experiment, study), *table, ""]
        if name in summary["metrics"] and name != summary["headline"]["metrics_of"]:
            lines += ["By the paper's metrics, mean ± standard deviation over seeds:", ""]
            lines += metrics_tables(summary, name)
    return lines


def metrics_tables(summary: dict[str, Any], name: str, *, figure_only: bool = False) -> list[str]:
    """Regret, reliability and utilization of an experiment's methods: a table, a row per column and method.

    Args:
        summary: see `mfcp.paper.summary.summarise_study`.
        name: of the experiment.
        figure_only: only the methods that its figure has.
    """
    own, experiment = summary["metrics"][name], summary["ratios"][name]
    rows = []
    for label, per_column in own["rows"].items():
        if figure_only and label not in experiment["figure"]:
            continue
        if label in own["printed"]:
            rows.append(["the paper", f"`{label}`", *map(_spread, own["printed"][label])])
        for column, values in zip(own["columns"], per_column, strict=True):
            rows.append([_column(column, own["swept"]), f"`{label}`", *(map(_spread, values) if values else ["-"] * 3)])
    order = {"the paper": -1} | {_column(column, own["swept"]): k for k, column in enumerate(own["columns"])}
    rows.sort(key=lambda row: order[row[0]])
    return [*markdown(["log", "method", "regret [s/task]", "reliability", "utilization"], rows), ""]


def _column(column: dict[str, Any], swept: str | None) -> str:
    return column["data"] if swept is None else f"{column['data']} {column['value']:g}"


def _spread(pair: list[float | None]) -> str:
    """Mean ± deviation, if that is known."""
    mean, deviation = pair
    assert mean is not None
    decimals = 3 if abs(mean) < 10 and (deviation or 0.0) < 10 else 0
    return f"{mean:.{decimals}f}" if deviation is None else f"{mean:.{decimals}f} ± {deviation:.{decimals}f}"


def _notes(experiment: dict[str, Any], study: dict[str, Any]) -> list[str]:
    """What a reader of an experiment's table must know."""
    held = [name for name in experiment["settings"] if name not in study["tuning"]]
    notes = [*filter(None, [experiment["about"]]), f"Setting{'s' * (len(held) > 1)} {listed(held)}."]
    if experiment["swept"]:
        notes.append(f"Columns: the log, and {SWEPT[experiment['swept']]}.")
    changes = [
        f"`{section}.{key}: {value}`"
        for section, values in experiment["changes"].items()
        for key, value in values.items()
    ]
    if changes:
        notes.append(f"Other than in params.yaml: {', '.join(changes)}.")
    failed = sorted({f"{c['data']} {setting}" for c in experiment["columns"] for setting in c["missing"]})
    if failed:
        notes.append(f"Jobs failed, so their settings are left out: {', '.join(failed)}.")
    return [paragraph(*notes), ""]


def _errors(summary: dict[str, Any]) -> list[str]:
    """How far each method's times are off, per experiment that has points in the figure."""
    errors = summary["errors"]
    titles = [f"{log}, {kind}" for log in errors for kind in ("all", "own")]
    rows = []
    for label in dict.fromkeys(label for own in errors.values() for label in own):
        values = [errors[log].get(label, {}).get(key) for log in errors for key in ("log_time_rms", "log_time_own")]
        rows.append([f"`{label}`", *("-" if value is None else f"{value:.3f}" for value in values)])
    about = paragraph(
        "Root mean square error of log time over pairs of test tasks and clusters, on settings that were not for",
        "tuning: *all* of it, and what remains (*own*) when each task's mean error over the clusters of a setting is",
        "taken out. A plan feels mostly the latter.",
    )
    return ["## Errors of log time", "", about, "", *markdown(["error of log time", *titles], rows), ""]


def _goals(summary: dict[str, Any]) -> list[str]:
    """A row per goal and a column per log; a swept goal has its values in one cell."""
    logs = list(summary["data"])
    rows: dict[str, list[str]] = {}
    for goal in summary["goals"]:
        row = rows.setdefault(_goal_title(goal, summary), [_at_most(goal["text"], summary), *[""] * len(logs)])
        column = 1 + logs.index(goal["data"])
        row[column] += ("; " if row[column] else "") + _reached(goal)
    for speed in summary["speed"]:
        row = rows.setdefault(f"{speed['text']}, CPU seconds a seed", [f"≤ {speed['at_most']:g}", *["-"] * len(logs)])
        row[1 + logs.index(speed["data"])] = f"{speed['found']:.1f} {met(speed['found'] <= speed['at_most'])}"
    about = paragraph(
        "Ratios of two methods' means on held-out settings, beside goals that were set before. A goal is met where the",
        "ratio is at most the goal and its p-value below .05 (.01 for MFCP-AD against TSM); goals of 1.00 and above",
        "ask for the ratio alone.",
    )
    table = markdown(["goal", "at most", *logs], [[k, *v] for k, v in rows.items()])
    retired = [f"- {each['text']}: {each['reason']}." for each in summary["retired"]]
    return ["## Goals", "", about, "", *table, "", "Goals that are no longer counted:", "", *retired, ""]


def _at_most(text: str, summary: dict[str, Any]) -> str:
    """What a goal should reach: one number, or one per log."""
    wanted = {goal["data"]: goal["at_most"] for goal in summary["goals"] if goal["text"] == text}
    if len(set(wanted.values())) == 1:
        return f"≤ {next(iter(wanted.values())):.2f}"
    return ", ".join(f"≤ {value:.2f} {log}" for log, value in wanted.items())


def _goal_title(goal: dict[str, Any], summary: dict[str, Any]) -> str:
    swept = summary["ratios"][goal["experiment"]]["swept"]
    return goal["text"] if swept is None else f"{goal['text']}, by {SWEPT[swept]}"


def _reached(goal: dict[str, Any]) -> str:
    if goal["beyond"] is not None:
        return f"below 0: {number(goal['beyond'], 3)} {met(goal['met'])}"
    return f"{number(goal['ratio'], 2)} {met(goal['met'])}"


def _example(example: dict[str, Any]) -> list[str]:
    """Fig. 2: two predictors of three tasks."""
    times = [", ".join(f"{t:g}" for t in row) for row in example["times"]]
    rows = [["the times", *times, "0", "", f"{example['optimum']:g} s"]]
    for key, title in (("by_error", "least squared error"), ("by_plan", "shortest makespan")):
        fitted = example[key]
        predicted = [", ".join(f"{t:.2f}" for t in row) for row in fitted["predicted"]]
        plan = ", ".join(str(cluster + 1) for cluster in fitted["plan"])
        rows.append([title, *predicted, f"{fitted['squared_error']:.3f}", plan, f"{fitted['makespan']:g} s"])
    clusters = [f"cluster {k + 1} [s]" for k in range(len(times))]
    about = paragraph(
        f"{len(example['feature'])} tasks with one feature each ({', '.join(f'{z:g}' for z in example['feature'])})",
        f"and {len(times)} clusters. A predictor is a line through the origin per cluster.",
    )
    titles = ["predictor chosen for", *clusters, "squared error", "clusters of its plan", "makespan"]
    return ["## Fig. 2: closer to the times, worse for the plan", "", about, "", *markdown(titles, rows), ""]


def _data(summary: dict[str, Any]) -> list[str]:
    rows = []
    for name, data in summary["data"].items():
        emulated = ", ".join(data["emulated"]) or "nothing"
        counts = (str(data[key]) for key in ("tasks", "source_tasks", "families", "clusters", "split_by"))
        rows.append([name, *counts, emulated])
    about = paragraph(
        "A split keeps a family of models on one side. A log of few families is split by source task instead, a model",
        "with one batch size; then other batch sizes of a test task's model may be in training.",
    )
    titles = ["log", "tasks", "source tasks", "families", "clusters", "split by", "emulated, not measured"]
    return ["## Data", "", about, "", *markdown(titles, rows), ""]


def _looked_at(summary: dict[str, Any]) -> list[str]:
    rows = [[each["at"], each["times"], each["what_for"]] for each in summary["looked_at"]]
    return ["## What was looked at, and how often", "", *markdown(["data", "times", "for"], rows), ""]


def _deviations(summary: dict[str, Any]) -> list[str]:
    return ["## Deviations from the paper", "", *(f"- {text}" for text in summary["deviations"]), ""]
