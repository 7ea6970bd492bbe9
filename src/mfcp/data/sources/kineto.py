"""Traces of PyTorch's profiler, as `torch.profiler` exports them for Chrome: steps and operators.

A host hands work to a GPU and goes on, so a step there takes as long as from the end of one step's work to that of the
next, however early the host was done with it.

A trace tells when each operator ran and, with `record_shapes=True`, on which shapes. It does not tell what consumed
what: edges are the order of execution. Bytes, parameters and outputs stay unknown; FLOPs are counted where shapes tell
them, for one sample, hence only where the batch is known.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from mfcp.data.sources import Source
from mfcp.data.sources.rows import log_of
from mfcp.errors import DataError

if TYPE_CHECKING:
    from mfcp.data.log.tables import Tables

STEP = "ProfilerStep#"
_LAUNCHES = ("cuda_runtime", "cuda_driver")  # calls on the host, also of HIP
_WORK = ("kernel", "gpu_memcpy", "gpu_memset")  # what they start on the device
ENDINGS = (".json", ".json.gz")
# Operators that only say how a tensor is looked at: they start no kernel.
VIEWS = {
    "view", "reshape", "_reshape_alias", "_unsafe_view", "view_as", "flatten", "unflatten", "t", "transpose", "permute",
    "expand", "expand_as", "squeeze", "unsqueeze", "slice", "select", "split", "chunk", "unbind", "narrow",
    "as_strided",
    "detach", "detach_", "alias", "to", "contiguous", "empty", "empty_like", "empty_strided", "resolve_conj",
    "lift_fresh",
}  # fmt: skip


class Kineto(Source):
    """Every trace is a run of the task that its file is named after; its forward pass is the task's graph."""

    name: ClassVar[str] = "kineto"
    path: str = Field(min_length=1, description="a trace, .json or .json.gz, or a folder of them")
    cluster: str = Field(min_length=1, description="name of the cluster that they were made on")
    batch_size: int | None = Field(None, ge=1, description="samples of a step; a trace does not tell it")

    def read(self, seed: int) -> Tables:
        """The traces' tables; nothing is drawn.

        Raises:
            DataError: no trace, one that is damaged, or one without steps or operators.
        """
        import pandas as pd

        from mfcp.data.log.coercion import coerce
        from mfcp.data.log.schema import EDGES, NODES

        root = Path(self.path)
        files = sorted(path for path in root.rglob("*") if path.name.endswith(ENDINGS)) if root.is_dir() else [root]
        if not files:
            raise DataError(f"{root}: no trace in it; expected files that end in {' or '.join(ENDINGS)}")
        runs: list[dict[str, Any]] = []
        tasks: dict[str, dict[str, Any]] = {}
        accelerators: set[str] = set()
        graphs: dict[str, list[dict[str, Any]]] = {"nodes": [], "edges": []}
        for path in files:
            content = _read(path)
            task = path.name.removesuffix(".gz").removesuffix(".json").removesuffix(".pt.trace")
            steps, operators = steps_of(path, content), forward(path, content)
            accelerators |= {str(one.get("name")) for one in content.get("deviceProperties") or []}
            base = float(content.get("baseTimeNanoseconds", 0)) / 1e9
            began = datetime.fromtimestamp(base + steps[0]["ts"] / 1e6, UTC) if base else None
            runs.append(
                {"run_id": f"{self.cluster}/{path.relative_to(root) if root.is_dir() else path.name}", "task_id": task,
                 "cluster_id": self.cluster, "step_time_s": median(seconds_of(path, content)), "status": "succeeded",
                 "batch_size": self.batch_size, "started_at": None if began is None else began.isoformat()}
            )  # fmt: skip
            if task not in tasks:
                tasks[task] = {"graph_id": task, "batch_size": self.batch_size}
                graphs["nodes"] += self._nodes(task, operators)
                graphs["edges"] += [{"graph_id": task, "src": n, "dst": n + 1} for n in range(len(operators) - 1)]
        known = {self.cluster: {"accelerator": accelerators.pop() if len(accelerators) == 1 else None}}
        tables = log_of(root, runs, tasks, known)
        for table in (NODES, EDGES):
            frame = pd.DataFrame(graphs[table.name], columns=[column.name for column in table.columns], dtype=object)
            tables[table.name] = coerce(table, frame).frame
        return tables

    def _nodes(self, graph: str, operators: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        rows = []
        for number, event in enumerate(operators):
            flops = flops_of(event) if self.batch_size else None
            rows.append(
                {"graph_id": graph, "node_id": number, "op": operator(event),
                 "flops": None if flops is None else flops / (self.batch_size or 1)}
            )  # fmt: skip
        return rows


def _read(path: Path) -> dict[str, Any]:
    from mfcp.border.json_text import parse_json
    from mfcp.border.limits import limits
    from mfcp.border.regular import opened

    bounds = limits()
    most = int(bounds.json_mib * 2**20)
    with opened(path, bounds.json_mib, expected="a trace") as file:
        try:
            content = gzip.GzipFile(fileobj=file).read(most + 1) if path.suffix == ".gz" else file.read()
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"{path}: expected what gzip has packed ({error}); export it again") from None
    if len(content) > most:
        raise DataError(f"{path}: more than {bounds.json_mib:g} MiB unpacked; see json_mib in `limits` of params.yaml")
    told = parse_json(content, path, bounds)
    if not isinstance(told, dict) or not isinstance(told.get("traceEvents"), list):
        raise DataError(f"{path}: expected an object with traceEvents, as torch.profiler exports it")
    return told


def _events(path: Path, content: Mapping[str, Any], category: str) -> list[dict[str, Any]]:
    """Complete events of a category, in order of their start, the enclosing ones first."""
    found = [
        event
        for event in content["traceEvents"]
        if isinstance(event, dict) and event.get("ph") == "X" and event.get("cat") == category
    ]
    for event in found:
        numbers = [event.get(name) for name in ("ts", "dur")]
        if not all(isinstance(value, int | float) and 0 <= value < 1e18 for value in numbers) or not event.get("name"):
            raise DataError(f"{path}: an event of {category} without name, ts or dur: {json.dumps(event)[:200]}")
    return sorted(found, key=lambda event: (event["ts"], -event["dur"]))


def steps_of(path: Path, content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The profiled steps, in order.

    Raises:
        DataError: there is none.
    """
    steps = [event for event in _events(path, content, "user_annotation") if str(event["name"]).startswith(STEP)]
    if not steps:
        raise DataError(f"{path}: no steps in it; call profiler.step() after each, with a schedule")
    return steps


def seconds_of(path: Path, content: Mapping[str, Any]) -> list[float]:
    """Seconds that each step took; on a GPU without the first of several, which may have waited for earlier work.

    Raises:
        DataError: there is no step.
    """
    import numpy as np

    steps = steps_of(path, content)
    begun = {_correlation(event): event["ts"] for category in _LAUNCHES for event in _events(path, content, category)}
    begun.pop(None, None)
    work = [
        (begun[_correlation(event)], event["ts"], event["ts"] + event["dur"])
        for category in _WORK
        for event in _events(path, content, category)
        if _correlation(event) in begun
    ]
    if not work:
        return [step["dur"] / 1e6 for step in steps]
    launched, start, end = np.array(work).T
    begins, durations = np.array([(step["ts"], step["dur"]) for step in steps]).T
    step = np.searchsorted(begins, launched, side="right") - 1
    inside = (step >= 0) & (launched < (begins + durations)[step])
    ends = begins + durations
    np.maximum.at(ends, step[inside], end[inside])
    if len(steps) > 1:
        return [float(seconds) for seconds in np.diff(ends) / 1e6]
    return [max(durations[0], ends[0] - start[inside].min(initial=ends[0])) / 1e6]


def _arguments(event: Mapping[str, Any]) -> dict[str, Any]:
    told = event.get("args")
    return told if isinstance(told, dict) else {}


def _correlation(event: Mapping[str, Any]) -> int | None:
    """Number that a launch and what it starts have in common."""
    number = _arguments(event).get("correlation")
    return number if isinstance(number, int) else None


def forward(path: Path, content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Operators of the last step's forward pass, in order: innermost ones that autograd knows, without views.

    Autograd numbers what it will differentiate; a step without gradients has no such numbers, and then all outermost
    operators count.

    Raises:
        DataError: there is none.
    """
    step = steps_of(path, content)[-1]
    inside = [
        event
        for event in _events(path, content, "cpu_op")
        if event.get("tid") == step.get("tid") and step["ts"] <= event["ts"] < step["ts"] + step["dur"]
    ]
    backward = [event["ts"] for event in inside if str(event["name"]).startswith("autograd::engine")]
    inside = [event for event in inside if not backward or event["ts"] < min(backward)]
    inside = [event for event in inside if str(event["name"]).startswith("aten::") and operator(event) not in VIEWS]
    numbered = [event for event in inside if "Sequence number" in _arguments(event)]
    found = _innermost(numbered) if numbered else _outermost(inside)
    if not found:
        raise DataError(f"{path}: no operators in its last step; profile ProfilerActivity.CPU as well")
    return found


def _innermost(events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    nexts = [event["ts"] for event in events[1:]] + [inf]
    return [event for event, after in zip(events, nexts, strict=True) if after >= event["ts"] + event["dur"]]


def _outermost(events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for event in events:
        if not found or event["ts"] >= found[-1]["ts"] + found[-1]["dur"]:
            found.append(event)
    return found


def operator(event: Mapping[str, Any]) -> str:
    """Name of an operator, as captured graphs have it."""
    return str(event["name"]).removeprefix("aten::")


def flops_of(event: Mapping[str, Any]) -> float | None:
    """Two for each multiplication with addition, of products and convolutions; None where shapes do not tell."""
    arguments = _arguments(event)
    shapes: list[list[int]] = arguments.get("Input Dims") or []
    values: list[str] = arguments.get("Concrete Inputs") or []
    name = operator(event)
    try:
        if name in ("mm", "addmm", "bmm", "baddbmm", "matmul"):
            left, right = shapes[-2:] if name in ("mm", "bmm", "matmul") else shapes[1:3]
            return 2.0 * _product(left) * right[-1]
        if name == "convolution":
            inputs, weights = shapes[:2]
            stride, padding, dilation = (json.loads(values[place]) for place in (3, 4, 5))
            transposed = values[6] == "True"
            if transposed:
                return 2.0 * _product(inputs) * _product(weights[1:])
            places = 1.0
            for axis, size in enumerate(inputs[2:]):
                reach = dilation[axis] * (weights[2 + axis] - 1) + 1
                places *= (size + 2 * padding[axis] - reach) // stride[axis] + 1
            return 2.0 * inputs[0] * places * _product(weights)
    except (IndexError, TypeError, ValueError, ZeroDivisionError):
        return None
    return None


def _product(shape: Sequence[int]) -> float:
    result = 1.0
    for size in shape:
        result *= size
    return result
