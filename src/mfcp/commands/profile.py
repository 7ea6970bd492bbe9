"""`mfcp profile`: options, and what it prints. Imports nothing heavy until it runs."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

_OUT = Path("my-machine")
_MOST_TASKS = 24  # rows of the printed table; families beyond


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
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Profile, and print what was measured and what is left."""
    from mfcp.profiling.session import profile

    if os.getloadavg()[0] > 1:
        print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores: times will be those of a busy machine")
    given = {key: value for key, value in vars(options).items() if key not in ("run", "models", "input", "batch")}
    given["precisions"] = given.pop("precision")
    done = profile(options.models, inputs=options.input, batches=options.batch, **given)
    for graph_id, why in done.without_graph.items():
        print(f"{graph_id} is measured without its operators: {why}")
    runs = done.tables["runs"]
    _show(runs[runs["run_id"].isin(done.ran)], done.tables["tasks"])
    print(f"{options.out}: {len(done.ran)} runs added, {len(runs)} in all")
    if done.left:
        print(f"{done.left} runs are left; the same command goes on with them")
    if done.cut:
        print(f"{done.cut} was under way when the budget ended, and is not recorded")


def _show(runs: pd.DataFrame, tasks: pd.DataFrame) -> None:
    """One line a task and cluster, or a family and cluster where tasks are many."""
    from rich.console import Console
    from rich.table import Table

    if runs.empty:
        return
    group = "task_id" if runs["task_id"].nunique() <= _MOST_TASKS else "family"
    title = "task" if group == "task_id" else group
    table = Table(title="medians of the succeeded runs")
    for name in (title, "cluster", "runs", "step [ms]", "samples/s", "peak [GB]"):
        table.add_column(name, justify="left" if name in (title, "cluster", "runs") else "right")
    named = runs.merge(tasks[["task_id", "family"]], on="task_id") if group == "family" else runs
    for (label, cluster), rows in named.groupby([group, "cluster_id"], sort=True):
        counts = rows["status"].value_counts().sort_index(ascending=False)
        said = ", ".join(f"{count} {status}" for status, count in counts.items())
        good = rows[rows["status"] == "succeeded"]
        figures = ("-", "-", "-")
        if len(good):
            step, rate = good["step_time_s"].median(), good["samples_per_s"].median()
            figures = (f"{1e3 * step:.4g}", f"{rate:.4g}", f"{good['peak_memory_bytes'].median() / 1e9:.2f}")
        table.add_row(str(label), str(cluster), said, *figures)
    Console(width=None if sys.stdout.isatty() else 160).print(table)
    for error, count in runs["error"].value_counts().items():
        print(f"{count} x {error}")


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
