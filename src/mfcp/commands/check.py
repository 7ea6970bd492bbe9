"""`mfcp check`: what a log is good for, before anything is trained on it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mfcp.border.columns import WIDEST, column_width, padded
from mfcp.border.regular import printable
from mfcp.commands.json_output import aside
from mfcp.errors import in_shell

if TYPE_CHECKING:
    import pandas as pd

    from mfcp.data.pool.coverage import Coverage
    from mfcp.data.pool.run_totals import TotalledLog
    from mfcp.data.validated_log import ValidatedLog

_SHOWN, _CLUSTERS = 5, 30  # rows of the quarantine, and clusters, that are listed
_TOLD = ("model", "batch_size", "precision", "phase", "param_count", "flops", "graph_id", "samples")
_LONGEST = 80  # characters of a cell
_LONGEST_NAME = WIDEST - 1  # of a cluster, whose end is marked
_FEW_RUNS = 5  # of a pair, below which its share of failures says little


def add_parser(commands: Any) -> None:
    """The sub-command and its options."""
    parser = commands.add_parser(
        "check",
        help="what a log is good for: bad rows, coverage, and what each command could do with it",
        description="Validates a folder of logs, counts which task ran on which cluster, names what is too thin, and "
        "says what benchmark, release and match could do with it. Changes nothing.",
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder in the log schema; `mfcp init` makes one")
    parser.add_argument("--quarantine", type=Path, metavar="FILE", help="write all rows that break a constraint (CSV)")
    parser.add_argument("--json", action="store_true", help="the same as JSON, for programs")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Validate, count, print."""
    from mfcp.commands.reading import read_log
    from mfcp.data.log.formats import write_sheet
    from mfcp.data.pool.coverage import Coverage

    with ExitStack() as stack:
        with aside(options):  # warnings are no JSON
            log = stack.enter_context(read_log(options.folder, max_bad_share=1.0, names_bad_rows=True))
        if options.quarantine is not None:
            write_sheet(log.findings.sheets(), options.quarantine)
        tables, coverage = log.tables, Coverage.of(log.tables)
        if options.json:
            print(json.dumps(_record(options.folder, log, coverage), indent=2))
            return
        print(_heading(options.folder, log))
        for part in (_rows(log), _clusters(tables, coverage), _thin(tables, coverage)):
            if part:
                print("\n" + "\n".join(part))
        print("\n" + "\n".join(_commands(options.folder, tables, coverage)))


def _record(folder: Path, log: ValidatedLog, coverage: Coverage) -> dict[str, Any]:
    """Everything that is printed, and every bad row."""
    from mfcp.data.pool.logged import is_emulated

    tables, least = log.tables, _least()
    return {
        "folder": str(folder),
        "emulated": is_emulated(tables),
        "rows": _counts(log),
        "bad_rows": [
            row for lines in _bad(log) for row in json.loads(lines.to_json(orient="records", default_handler=str))
        ],
        "clusters": [
            {
                "cluster_id": name,
                "tasks": int(coverage.tasks[i]),
                "runs": int(coverage.finished[i]),
                "failed": int(coverage.finished[i] - coverage.succeeded[i]),
                "median_runs_of_a_pair": float(coverage.runs[i]),
            }
            for i, name in enumerate(coverage.cluster_id)
        ],
        "measured_pairs": coverage.pairs[0],
        "possible_pairs": coverage.pairs[1],
        "tasks_on_two_clusters": coverage.shared,
        "tasks_that_state": _stated(tables),
        "too_thin": _reasons(tables, coverage),
        "commands": {
            name: {"works": not (lacks := coverage.missing(n)), "missing": lacks} for name, n in least.items()
        },
    }


def _counts(log: ValidatedLog) -> dict[str, int]:
    """Valid rows of the required tables."""
    return {"tasks": len(log.tables["tasks"]), "clusters": len(log.tables["clusters"]), "runs": log.runs}


def _stated(tables: TotalledLog) -> dict[str, int]:
    """Column → how many tasks state it."""
    return {name: int(tables["tasks"][name].notna().sum()) for name in _TOLD}


def _least() -> dict[str, int]:
    """Command → how many tasks it needs."""
    from mfcp.data.pool.coverage import BENCHMARK_TASKS, RELEASE_TASKS

    return {"benchmark": BENCHMARK_TASKS, "release": RELEASE_TASKS}


def _bad(log: ValidatedLog) -> Iterator[pd.DataFrame]:
    """The quarantine, without rows that stand there though they break nothing."""
    for lines in log.findings.sheets():
        yield lines[~lines["constraint"].isin(("no_success", "example"))]


def _heading(folder: Path, log: ValidatedLog) -> str:
    import pandas as pd

    from mfcp.data.pool.logged import is_emulated

    first, last = pd.Series(log.tables.totals.first).min(), pd.Series(log.tables.totals.last).max()
    dates = "" if pd.isna(first) else f", {first:%Y-%m-%d} to {last:%Y-%m-%d}"
    counts = ", ".join(f"{count} {name}" for name, count in _counts(log).items())
    emulated = "EMULATED LOG: its runs never took place.\n" if is_emulated(log.tables) else ""
    return f"{emulated}{folder}: {counts}{dates}"


def _rows(log: ValidatedLog) -> list[str]:
    """Bad rows with examples."""
    shown: list[dict[Any, Any]] = []
    count = 0
    for lines in _bad(log):
        shown += lines.head(_SHOWN - len(shown)).to_dict("records")
        count += len(lines)
    if not count:
        return [] if any(map(len, log.findings.sheets())) else ["Every row follows the schema."]
    return [
        f"{log.bad_rows} rows break the schema and are left out:",
        *(
            f"  {row['table']} row {row['row']} ({_name(row['key'])}): {row['column']} is '{_name(row['value'])}', "
            f"expected {row['expected']}"
            for row in shown
        ),
        *([f"  and {count - _SHOWN} more; --quarantine FILE writes all"] if count > _SHOWN else []),
    ]


def _name(text: str, longest: int = _LONGEST) -> str:
    """A cell of a stranger in a line of ours."""
    shown = printable(text[:longest])
    return f"{shown}…" if len(text) > longest else shown


def _clusters(tables: TotalledLog, coverage: Coverage) -> list[str]:
    """A line a cluster, and the share of pairs that are measured."""
    names = [_name(name, _LONGEST_NAME) for name in coverage.cluster_id[:_CLUSTERS]]
    width = column_width(names, 7)
    lines = [f"{'cluster':<{width}}  tasks    runs  failed  runs of a pair (median)"]
    for i, name in enumerate(names):
        finished = int(coverage.finished[i])
        failed = f"{1 - coverage.succeeded[i] / finished:.1%}" if finished else "-"
        lines.append(f"{padded(name, width)}  {coverage.tasks[i]:>5}  {finished:>6}  {failed:>6}  {coverage.runs[i]:g}")
    if len(coverage.cluster_id) > _CLUSTERS:
        lines.append(f"and {len(coverage.cluster_id) - _CLUSTERS} more clusters")
    known, possible = coverage.pairs
    filled = [f"{name} {count}" for name, count in _stated(tables).items() if count]
    return [
        *lines,
        f"measured pairs: {known} of {possible}; tasks on two clusters or more: {coverage.shared}",
        f"tasks that state: {', '.join(filled) or 'nothing but their name'} (of {len(tables['tasks'])})",
    ]


def _thin(tables: TotalledLog, coverage: Coverage) -> list[str]:
    """What is missing or little, as it is printed."""
    reasons = _reasons(tables, coverage)
    return ["too thin:", *(f"  - {reason}" for reason in reasons)] if reasons else ["Nothing is too thin."]


def _reasons(tables: TotalledLog, coverage: Coverage) -> list[str]:
    """What is missing or little, each with what it costs."""
    lines = []
    if not coverage.failures:
        failed = int((tables.totals.finished - tables.totals.succeeded).sum())
        why = "no run failed"
        if failed:
            why = f"{failed} failed, none on a pair that ever succeeded: pairs that cannot run, not how often runs fail"
        if failed and not coverage.timed:
            why = f"{failed} failed, on pairs without a time"
        lines.append(f"{why}: reliability is unknown, and gamma will not be applied")
    few = [name for name, runs in zip(coverage.cluster_id, coverage.runs, strict=True) if 0 < runs < _FEW_RUNS]
    if few and coverage.failures:
        shown = ", ".join(map(_name, few[:4])) + (f" and {len(few) - 4} more clusters" if len(few) > 4 else "")
        lines.append(f"fewer than {_FEW_RUNS} runs of a pair on {shown}: reliability is hardly known there")
    if not coverage.durations and coverage.timed:
        lines.append("no durations: seconds follow from throughput, and every new task must state its `samples`")
    figures = ("flops", "param_count", "graph_id")
    if tables["tasks"][list(figures)].isna().all(axis=None):
        lines.append(
            f"no task states {', '.join(figures)}: new models will be predicted poorly; `mfcp capture` counts them"
        )
    if 0 < coverage.shared < 20:
        lines.append(f"only {coverage.shared} tasks: wide intervals, and none is kept back to compare releases on")
    return lines


def _commands(folder: Path, tables: TotalledLog, coverage: Coverage) -> list[str]:
    """What each command could do."""
    lines = ["what works:"]
    for (command, least), out in zip(_least().items(), ("results", "my-release"), strict=True):
        missing = coverage.missing(least)
        verdict = f"no: {'; '.join(missing)}" if missing else "yes"
        lines.append(f"  mfcp {command} --data {in_shell(folder)} --out {out}\n    {verdict}")
    if not coverage.missing(_least()["release"]):
        lines.append("  mfcp match --model my-release --tasks FILE\n    after the release")
    return lines
