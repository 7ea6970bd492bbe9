"""The log schema: one table of columns that reader, validation, quarantine and docs derive from.

Units are SI, an empty cell means unknown, and columns that are not named here are kept and ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["text", "integer", "real", "time"]

SUCCEEDED = "succeeded"
STARVED = "oom"  # for want of memory
UNFINISHED = ("cancelled", "running", "pending", "queued")
"""Statuses that say nothing about reliability; every other one than `SUCCEEDED` is a failure."""


@dataclass(frozen=True)
class Column:
    """One column: what may stand in it and what it means.

    Attributes:
        name: as in the file.
        kind: what a value is; `time` is ISO 8601, without zone UTC.
        meaning: one line for the docs.
        unit: SI unit, empty for counts and text.
        nullable: a cell may be empty, and the column may be left out.
        low, high: closed bounds of a number, both or none; `above` opens the lower one.
        values: the only texts allowed; empty allows any.
    """

    name: str
    kind: Kind
    meaning: str
    unit: str = ""
    nullable: bool = True
    low: float | None = None
    high: float | None = None
    above: bool = False
    values: tuple[str, ...] = ()

    @property
    def expected(self) -> str:
        """What a cell must hold, in words."""
        parts: list[str] = [_KIND_WORDS[self.kind]]
        if self.values:
            parts = [" or ".join(self.values)]
        if self.low is not None and self.high is not None:
            parts.append(f"{'above' if self.above else 'from'} {self.low:g} to {self.high:g}")
        return " ".join([*parts, *([self.unit] if self.unit else []), *(["or empty"] if self.nullable else [])])


@dataclass(frozen=True)
class ForeignKey:
    """`columns` of a row must be the `target_columns` of a row of table `target`."""

    columns: tuple[str, ...]
    target: str
    target_columns: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """One table: its columns, unique key and references; a `required` one must be in the folder."""

    name: str
    meaning: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    foreign: tuple[ForeignKey, ...] = ()
    required: bool = True
    unique: bool = True

    def __getitem__(self, column: str) -> Column:
        return next(c for c in self.columns if c.name == column)


_KIND_WORDS = {"text": "text", "integer": "a whole number", "real": "a number", "time": "an ISO 8601 time"}


def _key(name: str, meaning: str) -> Column:
    return Column(name, "text", meaning, nullable=False)


def _index(name: str, meaning: str) -> Column:
    return Column(name, "integer", meaning, nullable=False, low=0, high=2**31)


def _text(name: str, meaning: str, *values: str) -> Column:
    return Column(name, "text", meaning, values=values)


def _count(name: str, meaning: str, high: float, *, low: float = 0, unit: str = "") -> Column:
    return Column(name, "integer", meaning, unit, low=low, high=high)


def _amount(name: str, meaning: str, unit: str, high: float, *, above: bool = False) -> Column:
    return Column(name, "real", meaning, unit, low=0, high=high, above=above)


# Bounds catch wrong units and damaged numbers, not unlikely values: each lies a few orders beyond what exists.
LONGEST_SECONDS = 1e9  # 32 years, longer than any accelerator has been in service; milliseconds of a month exceed it
_LONGEST_STEP = 1e6  # 12 days for one optimiser step
_FASTEST_RATE = 1e12  # samples a second: audio samples of a whole data centre stay below
_BYTES = 1e16
_FLOPS = 1e21  # of one sample, and per second of one device: both beyond the largest known by 1e4
_SAMPLES = 1e15

TASKS = Table(
    "tasks",
    "one deep-learning task per row",
    (
        _key("task_id", "name of the task"),
        _text("domain", "field: cv, nlp, rec, speech, rl, other"),
        _text("model", "name of the architecture"),
        _count("batch_size", "samples of one step; empty where it differs by run", 1e9, low=1),
        _count("input_size", "image side in pixels or sequence length in tokens", 1e9, low=1),
        _text("precision", "number format, such as fp32 or amp_fp16"),
        _text("phase", "training or inference", "train", "infer"),
        _count("param_count", "parameters of the model", 1e15),
        _amount("flops", "forward pass of one sample, 2 x multiply-accumulates", "FLOP", _FLOPS),
        _amount("activations", "elements that convolution and linear layers put out for one sample", "", 1e15),
        _text("graph_id", "graph in tables nodes and edges"),
        _amount("samples", "samples processed from start to end", "", _SAMPLES, above=True),
        _text("family", "group that a split never divides; default: first word of model"),
    ),
    key=("task_id",),
)

CLUSTERS = Table(
    "clusters",
    "one cluster per row; figures of a device are those of one accelerator",
    (
        _key("cluster_id", "name of the cluster"),
        _text("accelerator", "device"),
        _count("accelerator_count", "devices of the cluster", 1e7, low=1),
        _count("memory_bytes", "memory of one device", _BYTES, low=1, unit="B"),
        _amount("peak_flops", "dense peak rate of one device in the precision used", "FLOP/s", _FLOPS, above=True),
        _amount("memory_bandwidth", "of one device", "B/s", _BYTES, above=True),
        _amount("interconnect_bandwidth", "device to device", "B/s", _BYTES, above=True),
        _text("software", "framework, versions, mode"),
        _amount("pool_size", "devices side by side on one task; default 1", "", 1e7, above=True),
        _text("origin", "whether its runs took place; default: measured", "measured", "emulated"),
    ),
    key=("cluster_id",),
)

RUNS = Table(
    "runs",
    "one attempt of a task on a cluster per row",
    (
        _key("run_id", "name of the run"),
        _key("task_id", "task that ran"),
        _key("cluster_id", "cluster that it ran on"),
        _count("attempt", "1 for the first try of this task on this cluster", 1e9),
        _amount("step_time_s", "one step of batch_size samples", "s", _LONGEST_STEP, above=True),
        _amount("samples_per_s", "throughput of one of the pool_size devices", "1/s", _FASTEST_RATE),
        _amount("duration_s", "wall clock of the whole task", "s", LONGEST_SECONDS, above=True),
        Column("status", "text", "succeeded, failed, oom, cancelled, …", nullable=False),
        Column("started_at", "time", "start of the run"),
        _count("epoch", "epoch that the figures are of", 1e9),
        _count("batch_size", "samples of one step in this run", 1e9, low=1),
        _count("peak_memory_bytes", "memory of one device at its peak", _BYTES, low=1, unit="B"),
        _text("error", "message of a failed run"),
    ),
    key=("run_id",),
    foreign=(
        ForeignKey(("task_id",), "tasks", ("task_id",)),
        ForeignKey(("cluster_id",), "clusters", ("cluster_id",)),
    ),
)

NODES = Table(
    "nodes",
    "operators of the models' graphs",
    (
        _key("graph_id", "graph"),
        _index("node_id", "operator, in order of execution"),
        Column("op", "text", "name of the operator", nullable=False),
        _amount("flops", "of one sample", "FLOP", _FLOPS),
        _amount("bytes_read", "activations read", "B", _BYTES),
        _amount("bytes_written", "activations written", "B", _BYTES),
        _count("output_numel", "elements of the first output", 1e15),
        _count("param_count", "parameters counted at their first use", 1e15),
        _count("once", "1: runs once a step, whatever the batch; default: told from the graph", 1),
    ),
    key=("graph_id", "node_id"),
    required=False,
)

EDGES = Table(
    "edges",
    "operator dst consumes what src wrote",
    (_key("graph_id", "graph"), _index("src", "node_id"), _index("dst", "node_id")),
    key=("graph_id", "src", "dst"),
    foreign=(
        ForeignKey(("graph_id", "src"), "nodes", ("graph_id", "node_id")),
        ForeignKey(("graph_id", "dst"), "nodes", ("graph_id", "node_id")),
    ),
    required=False,
    unique=False,  # an operator may read the same tensor twice
)

TRUTH = Table(
    "truth",
    "expected values that only an emulator knows; used in evaluation, never in learning",
    (
        _key("task_id", "task"),
        _key("cluster_id", "cluster"),
        _amount("duration_s", "expected wall clock of the whole task", "s", LONGEST_SECONDS, above=True),
        Column("reliability", "real", "probability that a run succeeds", low=0, high=1),
    ),
    key=("task_id", "cluster_id"),
    foreign=(
        ForeignKey(("task_id",), "tasks", ("task_id",)),
        ForeignKey(("cluster_id",), "clusters", ("cluster_id",)),
    ),
    required=False,
)

COLOCATION = Table(
    "colocation",
    "two tasks at once on one accelerator of a cluster; 0 or empty where they did not run",
    (
        _key("cluster_id", "cluster"),
        _key("task_a", "one task"),
        _key("task_b", "the other task"),
        _amount("throughput_a", "of task_a while both run", "steps/s", _FASTEST_RATE),
        _amount("throughput_b", "of task_b while both run", "steps/s", _FASTEST_RATE),
        _amount("isolated_a", "of task_a alone", "steps/s", _FASTEST_RATE),
        _amount("isolated_b", "of task_b alone", "steps/s", _FASTEST_RATE),
    ),
    key=("cluster_id", "task_a", "task_b"),
    foreign=(
        ForeignKey(("cluster_id",), "clusters", ("cluster_id",)),
        ForeignKey(("task_a",), "tasks", ("task_id",)),
        ForeignKey(("task_b",), "tasks", ("task_id",)),
    ),
    required=False,
)

EXAMPLE: dict[str, dict[str, str]] = {
    "tasks": {
        "task_id": "example-task", "domain": "cv", "model": "resnet-50", "batch_size": "64", "input_size": "224",
        "precision": "amp_fp16", "phase": "train", "param_count": "25557032", "flops": "8178000000",
        "samples": "1281167", "family": "resnet",
    },
    "clusters": {
        "cluster_id": "example-cluster", "accelerator": "A100", "accelerator_count": "2",
        "memory_bytes": "42949672960", "peak_flops": "312000000000000", "memory_bandwidth": "1555000000000",
        "pool_size": "1", "origin": "measured",
    },
    "runs": {
        "run_id": "example-run", "task_id": "example-task", "cluster_id": "example-cluster", "attempt": "1",
        "duration_s": "1873.5", "status": "succeeded", "started_at": "2026-11-02T09:30:00Z",
    },
}  # fmt: skip
"""A row of each required table, as `mfcp init` writes it and validation leaves it out: nobody measured it."""

SCHEMA: dict[str, Table] = {t.name: t for t in (TASKS, CLUSTERS, RUNS, NODES, EDGES, TRUTH, COLOCATION)}
"""Every table by name, a table after all those it refers to."""


def schema_markdown(names: tuple[str, ...] = tuple(SCHEMA)) -> str:
    """The schema, or some of its tables, as the tables of docs/data.md."""
    lines = []
    for table in (SCHEMA[name] for name in names):
        presence = "required" if table.required else "optional"
        lines += [f"### `{table.name}` ({presence}): {table.meaning}", ""]
        if table.unique:
            lines += [f"Unique: {', '.join(f'`{k}`' for k in table.key)}.", ""]
        lines += [
            f"`{', '.join(f.columns)}` must name a row of `{f.target}` (`{', '.join(f.target_columns)}`).  "
            for f in table.foreign
        ]
        lines += ["", "| column | holds | meaning |", "|---|---|---|"]
        for column in table.columns:
            lines.append(f"| `{column.name}` | {column.expected} | {column.meaning} |")
        lines.append("")
    return "\n".join(lines)
