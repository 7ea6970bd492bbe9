"""docs/results.md, made from docs/results/paper.json alone."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from mfcp.errors import DataError
from mfcp.evaluation.compare import POOLED
from mfcp.evaluation.table import COLUMNS, cells
from mfcp.files import read_json, replacing, replacing_folder
from mfcp.paper.figures import names
from mfcp.paper.results import HELD_OUT
from mfcp.paper.study_file import BASELINES, OURS

SWEPT = {"tasks": "N", "zeta_floor": "zeta floor"}


def publish(out: Path, docs: Path) -> None:
    """Copy results and figures of a run to `docs/results` and write the page."""
    results = read_json(out / "paper.json")
    with replacing_folder(docs / "results") as folder:
        for name in ("paper.json", *names(results)):
            shutil.copyfile(out / name, folder / name)
    write_page(docs)
    print(f"{docs / 'results.md'} and {docs / 'results'}: commit them")


def write_page(docs: Path) -> None:
    """Write `docs/results.md` from `docs/results/paper.json`.

    Raises:
        DataError: no such file, or not one that a run has written.
    """
    path = docs / "results" / "paper.json"
    results = read_json(path)
    try:
        text = page(results)
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: not a paper.json of this version ({error!r}); run `make paper` again") from None
    with replacing(docs / "results.md") as temporary:
        temporary.write_text(text, encoding="utf-8")


def page(results: dict[str, Any]) -> str:
    """The page as Markdown; the same results give the same text."""
    study = results["study"]
    held_out = sorted({s for data in results["data"].values() for s in data["settings"]} - set(study["tuning"]))
    lines = [
        "# Results",
        "",
        _paragraph(
            "Written by `mfcp paper --page` from [results/paper.json](results/paper.json); a test holds the two equal.",
            f"Every number is over {study['seeds']} seeds (a split by family, a training and {study['rounds']}",
            f"test rounds each, unless a table says otherwise) of {study['settings']} settings of",
            f"{study['clusters']} clusters; a round has {study['tasks']} tasks where nothing else is said.",
            f"Settings {_listed(study['tuning'])} were",
            f"looked at while methods were developed, {_listed(held_out)} only at the end (*held out*). Brackets are",
            "95 % intervals by a bootstrap clustered by setting, then seed, then round, paired where two methods are",
            "compared; p-values are two-sided and never below one over the number of resamples",
            "([decision 73](decisions/0073-units-of-work-and-clustered-intervals.md)).",
        ),
        "",
        *_goals(results),
        *_example(results["example"]),
    ]
    for name, experiment in results["experiments"].items():
        lines += [f"## {experiment['title']}", "", *_changes(experiment["changes"])]
        for data in results["data"]:
            entries = [entry for entry in experiment["entries"] if entry["data"] == data]
            if entries:
                lines += _experiment(name, experiment, data, entries, study)
    return "\n".join([*lines, *_data(results), *_how(results)]) + "\n"


def _goals(results: dict[str, Any]) -> list[str]:
    """What was set out to be reached, and what was found."""
    rows = []
    for goal in results["goals"]:
        where = goal["data"] + (f", {goal['value']:g}" if goal["value"] is not None else "")
        pair = f"{goal['method'] or '-'} / {goal['against'] or '-'}"
        wanted = f"≤ {goal['at_most']:.2f}, p < {goal['p_below']:g}"
        found = [_reached(goal, scope) for scope in (HELD_OUT, POOLED)]
        rows.append([goal["text"], where, pair, goal["metric"].replace("_", " "), wanted, *found, _met(goal["met"])])
    for speed in results["speed"]:
        seeds = results["study"]["seeds"]
        took = f"{speed['found']:.1f} s a seed ({speed['found'] * seeds:.0f} s for {seeds} together)"
        met = _met(speed["found"] <= speed["at_most"])
        rows.append(
            [speed["text"], speed["data"], speed["method"], "CPU seconds", f"≤ {speed['at_most']:g} s", took, "", met]
        )
    titles = ["what", "data", "methods", "ratio of", "goal", "held-out settings", "all settings", "met"]
    about = _paragraph(
        "Ratios of pooled means on the same test rounds; below 1 the first method is better. Regret can be below zero,",
        "where plans miss gamma and save time; a ratio then says nothing, and *below 0* stands for it, with the first",
        "method's mean minus the goal's share of the second's. The best is chosen on",
        "validation rounds of the settings for tuning, among the rows that [study.yaml](../src/mfcp/paper/study.yaml)",
        f"calls ours ({_labels(results, OURS)}) and baselines ({_labels(results, BASELINES)}).",
    )
    return ["## Goals", "", about, "", *_markdown(titles, rows), ""]


def _reached(goal: dict[str, Any], scope: str) -> str:
    beyond = goal["beyond"].get(scope)
    return (
        _ratio(goal["ratios"].get(scope)) if beyond is None else f"below 0: {_number(beyond, 3)}, p {_p(beyond['p'])}"
    )


def _labels(results: dict[str, Any], kind: str) -> str:
    return ", ".join(f"`{label}`" for label in results["study"][kind])


def _changes(changes: dict[str, dict[str, Any]]) -> list[str]:
    own = [f"`{section}.{key}: {value}`" for section, values in changes.items() for key, value in values.items()]
    return [f"Other than in params.yaml: {', '.join(own)}.", ""] if own else []


def _experiment(
    name: str, experiment: dict[str, Any], data: str, entries: list[dict[str, Any]], study: dict[str, Any]
) -> list[str]:
    lines = [f"### {data}", ""]
    if experiment["swept"]:
        lines += _swept_table(experiment["swept"], entries)
    else:
        for scope in (HELD_OUT, POOLED):
            if scope in entries[0]["tables"]:
                titles = ["method", *(title for title, *_ in COLUMNS)]
                settings = "held-out settings" if scope == HELD_OUT else "all settings"
                lines += [f"{settings}:", "", *_markdown(titles, cells(entries[0]["tables"], scope)), ""]
    for entry in entries:
        lines += _best(entry, experiment["swept"])
        if entry["missing"]:
            lines += [f"Not in these numbers, because their jobs failed: settings {_listed(entry['missing'])}.", ""]
    ceilings = [label for label in study["ceilings"] if label in entries[0]["tables"][POOLED]]
    if ceilings:
        lines += [f"Ceilings, with knowledge that no method has: {_listed(f'`{label}`' for label in ceilings)}.", ""]
    pictures = [f"{name}-{data}.png"] + ([] if experiment["swept"] else [f"{name}-{data}-ratios.png"])
    return lines + [line for picture in pictures for line in (f"![{experiment['title']}](results/{picture})", "")]


def _swept_table(swept: str, entries: list[dict[str, Any]]) -> list[str]:
    """A row per value and method, of held-out settings where there are some."""
    scopes = [HELD_OUT if HELD_OUT in entry["tables"] else POOLED for entry in entries]
    rows = [
        [f"{entry['value']:g}", *row]
        for entry, scope in zip(entries, scopes, strict=True)
        for row in cells(entry["tables"], scope)
    ]
    settings = "held-out settings" if HELD_OUT in scopes else "all settings"
    return [f"{settings}:", "", *_markdown([SWEPT[swept], "method", *(title for title, *_ in COLUMNS)], rows), ""]


def _best(entry: dict[str, Any], swept: str | None) -> list[str]:
    if not entry["best_ratios"]:
        return []
    where = "" if swept is None else f"{SWEPT[swept]} = {entry['value']:g}: "
    found = [
        f"{metric.replace('_', ' ')} {_ratio(scopes.get(HELD_OUT, scopes.get(POOLED)))}"
        for metric, scopes in entry["best_ratios"].items()
    ]
    return [f"{where}best of ours `{entry['best'][OURS]}` over the best baseline `{entry['best'][BASELINES]}`: "
            f"{'; '.join(found)}.", ""]  # fmt: skip


def _example(example: dict[str, Any]) -> list[str]:
    """Fig. 2: two predictors of three tasks."""
    tasks = len(example["feature"])
    rows = []
    for key, title in (("by_error", "least squared error"), ("by_plan", "earliest end of its plan")):
        fitted = example[key]
        predicted = [", ".join(f"{t:.2f}" for t in row) for row in fitted["predicted"]]
        rows.append(
            [title, *predicted, f"{fitted['squared_error']:.3f}", ", ".join(str(c + 1) for c in fitted["plan"]),
             f"{fitted['makespan']:g} s"]
        )  # fmt: skip
    clusters = [f"cluster {k + 1}" for k in range(len(example["times"]))]
    truth = [
        [
            "the times",
            *(", ".join(f"{t:g}" for t in row) for row in example["times"]),
            "0",
            "",
            f"{example['optimum']:g} s",
        ]
    ]
    titles = ["predictor chosen for", *clusters, "squared error", "clusters of its plan", "end"]
    about = _paragraph(
        f"{tasks} tasks with one feature ({', '.join(f'{z:g}' for z in example['feature'])}) on {len(clusters)}",
        "clusters; a predictor is a line through the origin per cluster. The numbers are ours.",
    )
    return [
        "## Fig. 2: closer to the times, worse for the plan",
        "",
        about,
        "",
        *_markdown(titles, [*truth, *rows]),
        "",
    ]


def _data(results: dict[str, Any]) -> list[str]:
    """What the tables stand on."""
    rows = []
    for name, data in results["data"].items():
        pool = data["pool"]
        settings = "; ".join(f"{key}: {', '.join(own)}" for key, own in data["settings"].items())
        emulated = ", ".join(pool["emulated"]) or "nothing"
        rows.append([name, str(pool["tasks"]), str(pool["clusters"]), emulated, settings])
    titles = ["data", "tasks", "clusters", "emulated, not measured", "settings"]
    return ["## Data", "", *_markdown(titles, rows), ""]


def _how(results: dict[str, Any]) -> list[str]:
    """Deviations, and how to run it again."""
    about = results["environment"]
    versions = ", ".join(f"{name} {value}" for name, value in about.items() if name != "cores")
    minutes = f"{results['cpu_seconds'] / 60:.0f} CPU minutes"
    kept = _paragraph(
        "The first runs the default platform, the second further logs beside it. Finished jobs are kept: the same",
        f"command goes on after a kill. These numbers took {minutes} on a machine with",
        f"{about['cores']} cores ({versions}).",
        "`mfcp paper --publish` writes this page; every job's rounds lie in `data/paper/jobs`.",
    )
    commands = ["```console", "$ make paper", '$ make paper DATA="timm=DIR gavel=DIR"', "```"]
    deviations = [f"- {text}" for text in results["deviations"]]
    return ["## Deviations from the paper", "", *deviations, "", "## Run it again", "", *commands, "", kept]


def _paragraph(*sentences: str) -> str:
    return textwrap.fill(" ".join(sentences), 120, break_long_words=False, break_on_hyphens=False)


def _ratio(value: dict[str, Any] | None) -> str:
    return "-" if value is None else f"{_number(value, 2)}, p {_p(value['p'])}"


def _p(p: float) -> str:
    return f"{p:.2g}" if p >= 0.001 else f"{p:.0e}"


def _number(value: dict[str, Any], decimals: int) -> str:
    text = f"{value['mean']:.{decimals}f}"
    if value["ci_low"] is None:
        return text
    return f"{text} [{value['ci_low']:.{decimals}f}, {value['ci_high']:.{decimals}f}]"


def _met(met: bool | None) -> str:
    return {True: "yes", False: "no", None: "not judged"}[met]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _markdown(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|", *(f"| {' | '.join(row)} |" for row in rows)]
