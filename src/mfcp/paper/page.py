"""The results page, docs/results.md: made from docs/results/summary.json alone."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from mfcp.errors import DataError
from mfcp.evaluation.metric_table import BASELINE
from mfcp.files import read_json, replacing, replacing_folder, write_json
from mfcp.paper import figures
from mfcp.paper.study_file import BASELINES, OURS
from mfcp.paper.summary import summarise_study

SWEPT = {"tasks": "N", "zeta_floor": "floor of zeta"}
SUMMARY = Path("results") / "summary.json"
FIGURE = Path("results") / "ratios.png"


def publish(out: Path, docs: Path, published: Path) -> None:
    """Keep a run: its tables and figures for DVC, its summary and the page for git.

    Args:
        out: where the run left paper.json, tables.md and the figures.
        docs: the documents; gets results/summary.json, results/ratios.png and results.md.
        published: a folder that DVC tracks; gets paper.json, tables.md and all figures.
    """
    results = read_json(out / "paper.json")
    with replacing_folder(published) as folder:
        for name in ("paper.json", "tables.md", *figures.names(results)):
            shutil.copyfile(out / name, folder / name)
    write_json(docs / SUMMARY, summarise_study(results))
    write_page(docs)
    print(f"commit {docs / 'results.md'} and {docs / 'results'}; `dvc add {published}` keeps the whole run")


def write_page(docs: Path) -> None:
    """Write results.md and its figure from results/summary.json.

    Raises:
        DataError: no such file, or not a summary of this version.
    """
    path = docs / SUMMARY
    summary = read_json(path)
    try:
        text = page(summary)
        figures.draw_summary(summary, docs / FIGURE)
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: not a summary of this version ({error!r}); run `make paper` again") from None
    with replacing(docs / "results.md") as temporary:
        temporary.write_text(text, encoding="utf-8")


def page(summary: dict[str, Any]) -> str:
    """The page as Markdown; the same summary gives the same text."""
    lines = ["# Results", "", *_verdict(summary), *_metric(summary), ""]
    lines += [
        *_ratio_tables(summary),
        *_goals(summary),
        *_example(summary["example"]),
        *_data(summary),
        *_deviations(summary),
        *_how(summary),
    ]
    return "\n".join(lines) + "\n"


def _metric(summary: dict[str, Any]) -> list[str]:
    """What is measured, on what, and how sure it is."""
    study, price = summary["study"], summary["study"]["price"]
    held_out = sorted({s for data in summary["data"].values() for s in data["settings"]} - set(study["tuning"]))
    measured = _paragraph(
        "**Penalised excess** is the cost of a plan minus the least cost of any plan, both under the true times and",
        f"reliabilities. The cost of a plan is its makespan in units of the optimal makespan, plus {price:g} times the",
        "reliability that it lacks below gamma: a plan that misses gamma by one point pays as if it took",
        f"{price:g} % longer. Every table shows the **ratio of a method's penalised excess to that of TSM**, the plain",
        "two-stage method, on the same rounds; below 1 is better than TSM.",
    )
    drawn = _paragraph(
        f"A number stands for {study['seeds']} seeds on each held-out setting. A setting is {study['clusters']}",
        f"clusters of a log; a seed is a split by model family, a training and {study['rounds']} test rounds of",
        f"{study['tasks']} tasks (unless a table says otherwise). Settings {_listed(study['tuning'])} were looked at",
        f"while methods were developed; settings {_listed(held_out)} of the same log are held out. Brackets are 95 %",
        "intervals by a bootstrap that is clustered by setting, then seed, then round, and paired between methods",
        "([decision 73](decisions/0073-units-of-work-and-clustered-intervals.md)).",
    )
    return [measured, "", drawn, "", f"![Ratio to TSM by method and log]({FIGURE.as_posix()})"]


def _ratio_tables(summary: dict[str, Any]) -> list[str]:
    """A table per experiment; a later one leaves out what an earlier one has shown on the same rounds."""
    study, lines = summary["study"], list[str]()
    marks = {kind: f" ({word})" for kind, word in ((OURS, "ours"), (BASELINES, "baseline"), ("ceilings", "ceiling"))}
    mark = {label: word for kind, word in marks.items() for label in study[kind]}
    shown = {BASELINE}
    for experiment in summary["ratios"].values():
        columns, swept = experiment["columns"], experiment["swept"]
        labels = [label for label in experiment["rows"] if label not in ({BASELINE} if swept else shown)]
        if len(labels) > len(study["figure"]):
            labels = [label for label in labels if label in (*study["figure"], *study["ceilings"])]
        shown |= set() if swept else {*labels}
        titles = [c["data"] if swept is None else f"{c['data']} {c['value']:g}" for c in columns]
        rows = [
            [f"`{label}`{mark.get(label, '')}", *(_number(ratio, 2) for ratio in experiment["rows"][label])]
            for label in labels
        ]
        notes = _notes(experiment)
        text = [_paragraph(*notes), ""] if notes else []
        lines += [f"## {experiment['title']}", "", *text, *_markdown(["ratio to TSM", *titles], rows), ""]
    return lines


def _notes(experiment: dict[str, Any]) -> list[str]:
    """What a reader of an experiment's table must know."""
    notes = []
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
    return notes


def _verdict(summary: dict[str, Any]) -> list[str]:
    """Who wins, by how much and how surely: the best of ours over the best baseline, per log."""
    parts = []
    for experiment in summary["ratios"].values():
        for column, best in zip(experiment["columns"], experiment["best"], strict=True):
            if experiment["swept"] is None and best["ratio"] is not None:
                pair = f"`{best[OURS]}` over `{best[BASELINES]}`"
                parts.append(f"{_number(best['ratio'], 2)} on {column['data']} ({pair})")
    if not parts:
        return []
    return [
        _paragraph(
            "The best of our methods over the best baseline, both chosen on validation rounds of settings for tuning,",
            f"in the penalised excess of held-out settings: **{'; '.join(parts)}**. Below 1 ours is better.",
        ),
        "",
    ]


def _goals(summary: dict[str, Any]) -> list[str]:
    """A row per goal and a column per log; a swept goal has its values in one cell."""
    logs = list(summary["data"])
    rows: dict[str, list[str]] = {}
    for goal in summary["goals"]:
        row = rows.setdefault(_goal_title(goal, summary), [f"≤ {goal['at_most']:.2f}", *[""] * len(logs)])
        column = 1 + logs.index(goal["data"])
        row[column] += ("; " if row[column] else "") + _reached(goal)
    for speed in summary["speed"]:
        row = rows.setdefault(f"{speed['text']}, CPU seconds a seed", [f"≤ {speed['at_most']:g}", *["-"] * len(logs)])
        row[1 + logs.index(speed["data"])] = f"{speed['found']:.1f} {_met(speed['found'] <= speed['at_most'])}"
    about = _paragraph(
        "Ratios of two methods' means on held-out settings, beside goals that were set before. A goal is met where the",
        "ratio is at most the goal and its p-value below .05 (.01 for MFCP-AD against TSM). Regret can be below zero,",
        "where plans miss gamma and save time; a ratio then says nothing, and *below 0* gives the first method's mean",
        "minus the goal's share of the second's.",
    )
    return ["## Goals", "", about, "", *_markdown(["goal", "at most", *logs], [[k, *v] for k, v in rows.items()]), ""]


def _goal_title(goal: dict[str, Any], summary: dict[str, Any]) -> str:
    swept = summary["ratios"][goal["experiment"]]["swept"]
    return goal["text"] if swept is None else f"{goal['text']}, by {SWEPT[swept]}"


def _reached(goal: dict[str, Any]) -> str:
    if goal["beyond"] is not None:
        return f"below 0: {_number(goal['beyond'], 3)} {_met(goal['met'])}"
    return f"{_number(goal['ratio'], 2)} {_met(goal['met'])}"


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
    about = _paragraph(
        f"{len(example['feature'])} tasks with one feature each ({', '.join(f'{z:g}' for z in example['feature'])})",
        f"and {len(times)} clusters. A predictor is a line through the origin per cluster.",
    )
    titles = ["predictor chosen for", *clusters, "squared error", "clusters of its plan", "makespan"]
    return ["## Fig. 2: closer to the times, worse for the plan", "", about, "", *_markdown(titles, rows), ""]


def _data(summary: dict[str, Any]) -> list[str]:
    rows = []
    for name, data in summary["data"].items():
        emulated = ", ".join(data["emulated"]) or "nothing"
        rows.append([name, *(str(data[key]) for key in ("tasks", "families", "clusters")), emulated])
    return ["## Data", "", *_markdown(["log", "tasks", "families", "clusters", "emulated, not measured"], rows), ""]


def _deviations(summary: dict[str, Any]) -> list[str]:
    return ["## Deviations from the paper", "", *(f"- {text}" for text in summary["deviations"]), ""]


def _how(summary: dict[str, Any]) -> list[str]:
    """How to run it again, and where the rest is."""
    machine = summary["environment"]
    versions = ", ".join(f"{name} {value}" for name, value in machine.items() if name != "cores")
    commands = ["```console", "$ make paper", '$ make paper DATA="timm=DIR gavel=DIR"', "```"]
    about = _paragraph(
        "The first command runs the default platform, the second further logs beside it. Finished jobs are kept, so",
        f"the same command goes on after a kill. These numbers took {summary['cpu_seconds'] / 60:.0f} CPU minutes on",
        f"{machine['cores']} cores ({versions}). `mfcp paper --publish` writes this page from",
        "[results/summary.json](results/summary.json). Every metric of every method, setting and log, and a figure of",
        "each experiment, are in `data/published`, which DVC tracks; every round is in `data/paper/jobs`.",
    )
    return ["## Run it again", "", *commands, "", about]


def _paragraph(*sentences: str) -> str:
    return textwrap.fill(" ".join(sentences), 120, break_long_words=False, break_on_hyphens=False)


def _number(value: dict[str, Any] | None, decimals: int) -> str:
    if value is None or value["mean"] is None:
        return "-"
    text = f"{value['mean']:.{decimals}f}"
    if value["ci_low"] is None:
        return text
    return f"{text} [{value['ci_low']:.{decimals}f}, {value['ci_high']:.{decimals}f}]"


def _met(met: bool | None) -> str:
    return {True: "met", False: "**missed**", None: "not judged"}[met]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _markdown(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|", *(f"| {' | '.join(row)} |" for row in rows)]
