"""The results page, docs/results.md: made from docs/results/summary.json alone, like the README's table."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from mfcp.border.json_text import read_json
from mfcp.errors import DataError
from mfcp.files import replacing, replacing_folder, write_json
from mfcp.paper import figures
from mfcp.paper.summary import summarise_study
from mfcp.paper.tables_page import RATIOS, tables_page
from mfcp.paper.wording import judged, listed, markdown, number, paragraph

RESULTS = Path("results")
SUMMARY = RESULTS / "summary.json"
ERRORS = "errors.png"
SHORT = ("tsm", "mfcp_ad", "mfcp_x")  # and the best of the published losses
BEGIN, END = "<!-- the table of docs/results.md -->", "<!-- end of the table -->"


def publish(out: Path, docs: Path, published: Path) -> None:
    """Keep a run: its tables and figures for DVC, its summary and the pages for git.

    Args:
        out: where the run left paper.json, tables.md and the figures.
        docs: the documents; see `write_pages`.
        published: a folder that DVC tracks; gets paper.json, tables.md and all figures.
    """
    results = read_json(out / "paper.json")
    with replacing_folder(published) as folder:
        for name in ("paper.json", "tables.md", *figures.names(results)):
            shutil.copyfile(out / name, folder / name)
    write_json(docs / SUMMARY, summarise_study(results))
    write_pages(docs)
    print(f"commit {docs / 'results.md'}, {docs / RESULTS} and README.md; `dvc add {published}` keeps the whole run")


def write_pages(docs: Path) -> None:
    """Write what results/summary.json gives: results.md, results/tables.md, both figures, the table of ../README.md.

    Raises:
        DataError: no such file, or not a summary of this version.
    """
    path = docs / SUMMARY
    summary = read_json(path)
    try:
        pages = {docs / "results.md": page(summary), docs / RESULTS / "tables.md": tables_page(summary)}
        readme = docs.parent / "README.md"
        if readme.exists():
            pages[readme] = with_table(readme.read_text(encoding="utf-8"), summary)
        figures.draw_summary(summary, docs / RESULTS / RATIOS)
        figures.draw_errors(summary, docs / RESULTS / ERRORS)
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: not a summary of this version ({error!r}); run `make paper` again") from None
    for target, text in pages.items():
        with replacing(target) as temporary:
            temporary.write_text(text, encoding="utf-8")


def page(summary: dict[str, Any]) -> str:
    """The page as Markdown; the same summary gives the same text."""
    lines = [
        "# Results",
        "",
        *_metric(summary),
        *headline_table(summary),
        "",
        *_follows(summary),
        *_errors(summary),
        *_units(summary),
        *_behind(summary),
        *_how(summary),
    ]
    return "\n".join(lines) + "\n"


def headline_table(summary: dict[str, Any], *, short: bool = False) -> list[str]:
    """The table that opens the page: a method a row, a log a column; four of its rows for the README."""
    headline = summary["headline"]
    rows = [
        [row["title"], *(_cell(cell, len(row["of"]) > 1) for cell in row["cells"])]
        for row in headline["rows"]
        if not short or len(row["of"]) > 1 or row["of"][0] in SHORT
    ]
    return markdown(["penalised excess, ratio to TSM", *headline["logs"]], rows)


def with_table(readme: str, summary: dict[str, Any]) -> str:
    """The README with four rows of the page's table between its two marks; as it is where it has no marks."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        return readme
    return "\n".join([before + BEGIN, "", *headline_table(summary, short=True), "", END + after])


def _cell(cell: dict[str, Any], chosen: bool) -> str:
    text = number(cell["ratio"], 2)
    return f"{text} (`{cell['label']}`)" if chosen and cell["label"] else text


def _metric(summary: dict[str, Any]) -> list[str]:
    """What is measured."""
    price = summary["study"]["price"]
    measured = paragraph(
        "**Penalised excess** is the cost of a plan minus the least cost of any plan, both under the true times and",
        f"reliabilities. The cost of a plan is its makespan in units of the optimal makespan, plus {price:g} times the",
        "reliability that it lacks below gamma: a plan that misses gamma by one point pays as if it took",
        f"{price:g} % longer. The table shows each method's penalised excess **as a ratio to that of TSM**, the plain",
        "two-stage method, on the same rounds. Below 1 is better than TSM.",
    )
    return [measured, ""]


def _follows(summary: dict[str, Any]) -> list[str]:
    """What the table says, a sentence a finding."""
    lines = []
    for finding in summary["headline"]["follows"]:
        ratios = finding["ratios"]
        named = ", ".join(f"{number(ratio, 2)} on {log}" for log, ratio in ratios.items())
        lines.append(paragraph(f"- {finding['text'].replace('{ratios}', named)} ({judged(ratios)})."))
    return [*lines, ""]


def _errors(summary: dict[str, Any]) -> list[str]:
    title = next(iter(summary["ratios"].values()))["title"]
    about = paragraph(
        "Every point of the figure is a method: how far its predicted times are off on test tasks, and the excess that",
        "its plans have. Colours are the rules by which methods decide. It shows the settings that were not for tuning",
        f"of *{title}*, which has more methods than the table.",
    )
    return [about, "", f"![Excess against error of log time, a panel per log]({(RESULTS / ERRORS).as_posix()})", ""]


def _units(summary: dict[str, Any]) -> list[str]:
    """What a number stands for, and what it must not be taken for."""
    study, headline = summary["study"], summary["headline"]
    text = paragraph(
        f"A number stands for {study['seeds']} seeds on each of the settings {listed(headline['settings'])}. No other",
        "experiment has these settings, nor the families of their test tasks (source tasks in a log with few",
        "families). A setting is",
        f"{study['clusters']} clusters of a log; a seed draws training tasks and {study['rounds']} test rounds of",
        f"{study['tasks']} tasks. Where a row has a choice of methods, it was made on settings",
        f"{listed(study['tuning'])} under seeds that no table reports. Brackets are 95 % intervals by a bootstrap that",
        "is clustered by setting, then seed, then round, and paired between methods",
        "([decision 73](decisions/0073-units-of-work-and-clustered-intervals.md)).",
    )
    return ["## What a number stands for", "", text, ""]


def _behind(summary: dict[str, Any]) -> list[str]:
    """Where the other tables are, and how the goals ended."""
    goals = summary["goals"]
    titles = [experiment["title"] for experiment in summary["ratios"].values()]
    reached = sum(goal["met"] is True for goal in goals)
    return [
        "## Everything else",
        "",
        paragraph(f"- [Every experiment and method](results/tables.md): {'; '.join(titles)}."),
        f"- [Goals](results/tables.md#goals) that were set before: {reached} of {len(goals)} comparisons meet theirs.",
        "- [What was looked at, and how often](results/tables.md#what-was-looked-at-and-how-often).",
        "- [Where we deviate from the paper](results/tables.md#deviations-from-the-paper).",
        "- [What experiments have shown](findings.md), those that failed among them.",
        "",
    ]


def _how(summary: dict[str, Any]) -> list[str]:
    """How to run it again, and where the rest is."""
    machine = summary["environment"]
    versions = ", ".join(f"{name} {value}" for name, value in machine.items() if name != "cores")
    commands = ["```console", "$ make paper", '$ make paper DATA="timm=DIR gavel=DIR"', "```"]
    about = paragraph(
        "The first command runs the default platform, the second further logs beside it. Finished jobs are kept, so",
        f"the same command goes on after a kill. These numbers took {summary['cpu_seconds'] / 60:.0f} CPU minutes on",
        f"{machine['cores']} cores ({versions}). `mfcp paper --publish` writes the pages from",
        "[results/summary.json](results/summary.json). Every metric of every method, setting and log, and a figure of",
        "each experiment, are in `data/published`, which DVC tracks; every round is in `data/paper/jobs`.",
    )
    return ["## Run it again", "", *commands, "", about]
