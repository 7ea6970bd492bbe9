"""`mfcp profile`: options, and what it prints. Imports nothing heavy until it runs."""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from mfcp.commands.json_output import add_json, aside, print_json
from mfcp.errors import MfcpError
from mfcp.progress import console

if TYPE_CHECKING:
    import pandas as pd

_OUT = Path("my-machine")
_MOST_TASKS = 24  # rows of the printed table; families beyond
_LONGEST_ERROR = 150  # a GPU without memory tells a story


def add_parser(commands: Any) -> None:
    """The sub-command and its options."""
    parser = commands.add_parser(
        "profile",
        help="real training steps on this machine, measured into the log schema",
        description="Trains each MODEL for some steps on this machine, each run in a process of its own, and adds "
        "what was measured to a folder in the log schema. The same command again goes on where it was ended. MODEL is "
        "zoo:ID, zoo:FAMILY or FILE.py:NAME (the file is executed: only name code of your own); none: the whole zoo.",
    )
    parser.add_argument("models", nargs="*", metavar="MODEL", help="zoo:resnet-50@224, zoo:resnet, FILE.py:NAME")
    parser.add_argument(
        "--out", type=Path, default=_OUT, metavar="DIR", help=f"folder that the tables grow in ({_OUT})"
    )
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="[NAME=]8x3x224x224[:DTYPE]",
        help="an input of FILE.py:NAME, batch first, once for each, as mfcp capture takes them",
    )
    parser.add_argument("--batch", type=_numbers, default=(), metavar="4,8", help="batch sizes (8, or that of --input)")
    parser.add_argument(
        "--precision", type=_words, default=("fp32",), metavar="P,…", help="fp32, amp_fp16, amp_bf16 (fp32)"
    )
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto: cuda where there is")
    parser.add_argument("--threads", type=_numbers, default=(), metavar="1,2", help="CPU threads, each a cluster (all)")
    parser.add_argument("--memory-limit", type=_bytes, metavar="BYTES", help="of a run, such as 4e9; its own cluster")
    parser.add_argument("--repeats", type=int, default=1, metavar="R", help="runs of a task on a cluster (1)")
    parser.add_argument("--warmup", type=int, default=1, metavar="W", help="steps that are not timed (1)")
    parser.add_argument("--steps", type=int, default=5, metavar="S", help="steps that are timed (5)")
    parser.add_argument("--epochs", type=int, metavar="E", help="train the whole task instead: so many epochs …")
    parser.add_argument("--examples", type=int, metavar="n", help="… over so many examples")
    parser.add_argument("--budget", type=float, metavar="SECONDS", help="end after so many seconds")
    parser.add_argument("--timeout", type=float, default=600.0, metavar="SECONDS", help="of one run (600)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of weights and inputs (0)")
    add_json(parser)
    parser.set_defaults(run=run, native=True)  # it measures what the machine can do


def run(options: argparse.Namespace) -> None:
    """Profile, and print what was measured and what is left."""
    from mfcp.profiling.session import profile

    others = ("run", "native", "models", "input", "batch", "json")
    given = {key: value for key, value in vars(options).items() if key not in others}
    given["precisions"] = given.pop("precision")
    with aside(options):
        if os.getloadavg()[0] > 1:
            said = f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
            print(f"{said}: times will be those of a busy machine")
        done = profile(options.models, inputs=options.input, batches=options.batch, **given)
    runs = done.tables["runs"]
    ran = runs[runs["run_id"].isin(done.ran)]
    group = "task" if ran["task_id"].nunique() <= _MOST_TASKS else "family"
    content = {
        "folder": str(options.out),
        "added": len(done.ran),
        "runs": len(runs),
        "left": done.left,
        "cut": done.cut,
        "measured": _measured(ran, done.tables["tasks"], group),
        "errors": ran["error"].value_counts().to_dict(),
        "without_graph": done.without_graph,
    }
    if options.json:
        print_json(content)
    else:
        _show(content, group)
    if len(ran) and (ran["status"] == "failed").all():
        raise MfcpError(
            f"none of {len(ran)} runs succeeded. {options.out} has them as failed, which tells against the reliability "
            "of this machine: where the model is at fault, mend it and profile into another folder"
        )


def _measured(runs: pd.DataFrame, tasks: pd.DataFrame, group: str) -> list[dict[str, Any]]:
    """A row per task or family and cluster: how many runs ended how, medians of those that succeeded."""
    named = runs.merge(tasks[["task_id", "family"]], on="task_id").rename(columns={"task_id": "task"})
    rows = []
    for (label, cluster), own in named.groupby([group, "cluster_id"], sort=True):
        good = own[own["status"] == "succeeded"]
        figures = good[["step_time_s", "samples_per_s", "peak_memory_bytes"]].astype(float)  # nan where none succeeded
        medians = {str(name): float(value) for name, value in figures.median().items()}
        counts = own["status"].value_counts().sort_index(ascending=False).to_dict()
        rows.append({group: str(label), "cluster": str(cluster), "statuses": counts, **medians})
    return rows


def alike(errors: dict[str, int]) -> list[str]:
    """A line for errors that differ in their numbers only: how often, and the first of them."""
    groups: dict[str, list[str]] = {}
    for error in errors:
        groups.setdefault(re.sub(r"\d+(\.\d+)? ?[KMG]?i?B?", "0", error), []).append(error)
    lines = []
    for group in groups.values():
        others = " (and others like it)" if len(group) > 1 else ""
        said = shorten(group[0], _LONGEST_ERROR, placeholder=" …")
        lines.append(f"{sum(errors[error] for error in group)} x {said}{others}")
    return lines


def _show(content: dict[str, Any], group: str) -> None:
    """What was measured as a table, then what is left."""
    from rich.table import Table

    for graph_id, why in content["without_graph"].items():
        print(f"{graph_id} is measured without its operators: {why}")
    if content["measured"]:
        table = Table(title="medians of the succeeded runs")
        for name in (group, "cluster", "runs", "step [ms]", "samples/s", "peak [GB]"):
            table.add_column(name, justify="left" if name in (group, "cluster", "runs") else "right")
        for row in content["measured"]:
            said = ", ".join(f"{count} {status}" for status, count in row["statuses"].items())
            figures = ("-", "-", "-")
            if "succeeded" in row["statuses"]:
                step, peak = 1e3 * row["step_time_s"], row["peak_memory_bytes"] / 1e9
                figures = (f"{step:.4g}", f"{row['samples_per_s']:.4g}", f"{peak:.2f}")
            table.add_row(row[group], row["cluster"], said, *figures)
        console(None if sys.stdout.isatty() else 160).print(table)
    for line in alike(content["errors"]):
        print(line)
    print(f"{content['folder']}: {content['added']} runs added, {content['runs']} in all")
    if content["left"]:
        print(f"{content['left']} runs are left; the same command goes on with them")
    if content["cut"]:
        print(f"{content['cut']} was under way when the budget ended, and is not recorded")


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected whole numbers parted by commas, got {text}") from None


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(","))


def _bytes(text: str) -> int:
    try:
        value = int(float(text))
    except (ValueError, OverflowError):
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a number of bytes, such as 4e9, got {text}")
    return value
