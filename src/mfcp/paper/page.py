"""The results page, docs/results.md: made from docs/results/summary.json alone, like the README's table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mfcp.border.json_text import read_json
from mfcp.errors import DataError
from mfcp.files import replacing, write_json
from mfcp.paper import figures
from mfcp.paper.summary import summarise_study
from mfcp.paper.tables_page import RATIOS, metrics_tables, tables_page
from mfcp.paper.wording import judged, listed, markdown, number, paragraph

if TYPE_CHECKING:
    import pandas as pd

RESULTS = Path("results")
SUMMARY = RESULTS / "summary.json"
ERRORS = "errors.png"
SHORT = ("tsm", "mfcp_ad", "mfcp_x")  # and the best of the published losses
_STATISTICS = ("mean", "std", "ci_low", "ci_high", "p", "n")
BEGIN, END = "<!-- the table of docs/results.md -->", "<!-- end of the table -->"


def publish(out: Path, docs: Path) -> None:
    """Keep a run: its summary, the pages, and every number of its tables.

    Args:
        out: where the run left paper.json.
        docs: the documents; see `write_pages`. A Parquet file in results for each experiment gets a row for every log,
            value of a sweep, scope, method and metric.
    """
    results = read_json(out / "paper.json")
    write_json(docs / SUMMARY, summarise_study(results))
    for name, numbers in every_number(results).groupby("experiment"):
        with replacing(docs / RESULTS / f"{name}.parquet") as path:
            numbers.to_parquet(path, index=False, compression="zstd")
    write_pages(docs)
    print(f"commit {docs / 'results.md'}, {docs / RESULTS} and README.md")


def every_number(results: dict[str, Any]) -> pd.DataFrame:
    """The tables of paper.json, a row per number with its deviation and the ends of its 95 % interval."""
    import pandas as pd

    rows = [
        (name, entry["data"], entry["value"], scope, method, metric, *(own.get(key) for key in _STATISTICS))
        for name, experiment in results["experiments"].items()
        if not experiment["of"]
        for entry in experiment["entries"]
        for scope, methods in entry["tables"].items()
        for method, metrics in methods.items()
        for metric, own in metrics.items()
    ]
    names = ["experiment", "log", "value", "scope", "method", "metric"]
    table = pd.DataFrame(rows, columns=[*names, *_STATISTICS])
    table[["value", *_STATISTICS]] = table[["value", *_STATISTICS]].astype("float32")
    return table


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
        "![The same ratios with their intervals, a panel per log](results/ratios.png)",
        "",
        *_units(summary),
        *_follows(summary),
        *_paper_metrics(summary),
        *_errors(summary),
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
        f"{price:g} % longer. gamma is the median reliability of the time-optimal plans of",
        "validation rounds, so that it",
        "binds in half of them. All reliabilities are emulated; times are measured but for the default platform's. The",
        "table shows each method's penalised excess **as a ratio to that of TSM**, the plain",
        "two-stage method, on the same rounds. Below 1 is better than TSM.",
    )
    return [measured, ""]


def _follows(summary: dict[str, Any]) -> list[str]:
    """What predictors, the price and the rule contribute: a table and a sentence each, on the same rounds."""
    headline = summary["headline"]
    rules = list(headline["parts"][0]["cells"]) if headline["parts"] else []
    rows = [
        [f"{row['log']}: {row['predictors']}", *(number(row["cells"][rule], 2) for rule in rules)]
        for row in headline["parts"]
    ]
    about = paragraph(
        "The same predictors under each rule, as ratios to TSM on the rounds of the first table. Down a column the",
        "predictors change and the rule does not; along a row it is the other way round.",
    )
    lines = ["## What predictors, price and rule contribute", "", about, ""]
    lines += [*markdown(["log: predictors", *rules], rows), ""] if rows else []
    for finding in summary["headline"]["follows"]:
        ratios = finding["ratios"]
        named = ", ".join(f"{number(ratio, 2)} on {log}" for log, ratio in ratios.items())
        lines.append(paragraph(f"- {finding['text'].replace('{ratios}', named)} ({judged(ratios)})."))
    return [*lines, ""]


def _paper_metrics(summary: dict[str, Any]) -> list[str]:
    """The paper's own metrics, of its five methods."""
    wanted = summary["headline"]["metrics_of"]
    if wanted not in summary["metrics"]:
        return []
    settings = [name for name in summary["ratios"][wanted]["settings"] if name not in summary["study"]["tuning"]]
    about = paragraph(
        f"Mean ± standard deviation over seeds of settings {listed(settings)}: regret, Eq.",
        "(6), in seconds a task (below 0",
        "where plans miss gamma and save time), reliability, and utilization. The paper prints these as a figure.",
        "[Its tables](results/tables.md) stand beside ours with their numbers.",
    )
    return ["## By the paper's metrics", "", about, "", *metrics_tables(summary, wanted, figure_only=True)]


def _errors(summary: dict[str, Any]) -> list[str]:
    about = paragraph(
        "Every point is a method of the first table's rounds: how far its predicted times are off on test tasks, and",
        "the excess of its plans. Colours are the rules by which methods decide.",
    )
    lines = ["## Error and excess", "", about, ""]
    return [*lines, f"![Excess against error of log time, a panel per log]({(RESULTS / ERRORS).as_posix()})", ""]


def _units(summary: dict[str, Any]) -> list[str]:
    """What a number stands for, and what it must not be taken for."""
    study, held = summary["study"], summary["study"]["held_out"]
    groups = [
        f"{name} {data['held_out']['tested']} of {data['held_out']['groups']} {data['held_out']['kind']}"
        for name, data in summary["data"].items()
    ]
    text = paragraph(
        f"A number is over {held['draws']} draws of test tasks, each of",
        f"{100 * held['families']:.0f} % of the families of",
        f"a log ({'; '.join(groups)}), that training and validation do not have. The first",
        "draw is held out for good: no",
        f"other experiment has it. Every draw has {held['settings']} settings of its own, of",
        f"{study['clusters']} clusters,",
        f"and {held['seeds']} seeds, that divide all other tasks into training and validation",
        "(about 73 and 27 %) and draw",
        f"{study['rounds']} rounds of {study['tasks']} test tasks. Brackets are 95 % intervals by a bootstrap that is",
        "clustered by draw, and so by tasks and clusters, then setting and seed, then round,",
        "and paired between methods",
        "([decision 98](decisions/0098-several-draws-of-test-tasks.md)). Where a row has a",
        "choice of methods, it was made",
        f"on settings {listed(study['tuning'])} under seeds that no table reports.",
    )
    return [text, ""]


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
        "- [What experiments have shown](findings.md), those that failed among them; and the first table's rows on",
        "  [a log that nothing was developed on](findings.md#a-log-that-nothing-was-developed-on).",
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
        "[results/summary.json](results/summary.json). Every metric of every method, setting and log is in a Parquet",
        "file for each experiment beside it; a run leaves every round in `data/paper/jobs`.",
    )
    return ["## Run it again", "", *commands, "", about]
