"""Runs one after another, each recorded before the next one starts."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from math import log
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from mfcp.emulator.zoo import activations
from mfcp.errors import DataError
from mfcp.profiling.folder import LogFolder
from mfcp.profiling.isolation import Isolation, Outcome
from mfcp.profiling.subjects import ProfilingRun, Subject
from mfcp.progress import progress

if TYPE_CHECKING:
    from mfcp.data.log.tables import Tables

_UPDATE = 1000  # operations in the time of a parameter's gradient and update: some 40 bytes, by memory's speed
_START = 1e8  # operations in the time of a process's start: runs of less are all alike


@dataclass(frozen=True)
class Profiled:
    """What a profile left.

    Attributes:
        tables: of the folder, with the rows of earlier profiles.
        ran: run_id of the runs of this one.
        left: runs that the budget did not allow.
        cut: task of the run that was under way when the budget ended.
        without_graph: graph_id → why its operators are not known.
    """

    tables: Tables
    ran: list[str] = field(default_factory=list)
    left: int = 0
    cut: str | None = None
    without_graph: dict[str, str] = field(default_factory=dict)


class _BudgetEndError(Exception):
    """The budget ended while a job was under way."""


@dataclass(frozen=True)
class RunSettings:
    """How every run goes."""

    warmup: int
    steps: int
    epochs: int | None
    examples: int | None
    timeout: float
    memory: int | None
    seed: int

    @property
    def examples_in_all(self) -> int | None:
        """Of the whole task, None where a run is a few steps of it."""
        return self.epochs * self.examples if self.epochs and self.examples else None


class Session:
    """One profile under way.

    Args:
        folder: gets every row.
        isolation: where everything runs.
        settings: how.
        clusters: the rows of table clusters by name, without figures.
        end: `time.monotonic()` at which the budget ends.
    """

    def __init__(
        self,
        folder: LogFolder,
        isolation: Isolation,
        settings: RunSettings,
        clusters: dict[str, dict[str, Any]],
        end: float,
    ) -> None:
        self.folder, self.isolation, self.settings, self.clusters, self.end = folder, isolation, settings, clusters, end
        self.spent: list[tuple[float, float]] = []  # (work, seconds) of the runs so far
        self.graphs = folder.names("nodes") & folder.names("edges")
        self.without_graph: dict[str, str] = {}
        self.facts: dict[str, dict[str, Any]] = {}

    def go(self, turns: list[list[ProfilingRun]]) -> Profiled:
        """Run until all is done or the budget ends: turn by turn, what is little work first."""
        ran: list[str] = []
        cut = None
        total = sum(map(len, turns))
        with progress(f"profile {total} runs", total=total) as advance:
            try:
                # What comes from files may be wrong: that shows before anything else runs.
                self._capture([run.subject for turn in turns for run in turn if "file" in run.subject.spec])
                for turn in turns:
                    self._capture([run.subject for run in turn])
                    for run in sorted(turn, key=self._work):
                        if time.monotonic() + self._expected(run) > self.end:
                            raise _BudgetEndError
                        cut = run.task_id
                        self._record(run)
                        cut = None
                        ran.append(run.run_id)
                        advance()
            except _BudgetEndError:
                pass
        return Profiled(self.folder.tables, ran, total - len(ran), cut, self.without_graph)

    def _work(self, run: ProfilingRun) -> float:
        """About the operations of a run's steps; the traffic of parameters counts as those that fit into its time."""
        graph = self._facts(run.subject.graph_id)
        count = self.settings.examples_in_all or run.batch * (self.settings.warmup + self.settings.steps)
        return count * (3 * (graph["flops"] or 0) + _UPDATE * (graph["param_count"] or 0) / run.batch) + _START

    def _expected(self, run: ProfilingRun) -> float:
        """Seconds that a run takes: those of the run nearest in work, and in proportion where it is more work."""
        work = self._work(run)
        near, seconds = min(self.spent, key=lambda other: abs(log(other[0] / work)), default=(work, 0.0))
        return seconds * max(1.0, work / near)

    def _isolated(self, job: str, arguments: dict[str, Any], memory: int | None = None) -> Outcome:
        left = self.end - time.monotonic()
        if left <= 0:
            raise _BudgetEndError
        outcome = self.isolation.run(job, arguments, timeout=min(self.settings.timeout, left), memory=memory)
        if outcome.timed_out and left < self.settings.timeout:
            raise _BudgetEndError
        return outcome

    def _record(self, run: ProfilingRun) -> None:
        """Run and write down, with the rows of tables tasks and clusters that it refers to."""
        settings = self.settings
        device = run.place["device"]
        self._describe(run)
        arguments = {
            "model": run.subject.spec,
            "batch": run.batch,
            "precision": run.precision,
            "optimizer": run.subject.optimizer,
            "device": device,
            "threads": run.threads,
            "memory": settings.memory,
            "warmup": settings.warmup,
            "steps": settings.steps,
            "total": settings.examples_in_all // run.batch if settings.examples_in_all else None,
            "seed": settings.seed + run.attempt,
        }
        # Without a limit what the machine has is one: better an allocation that fails than the kernel's kill.
        memory = (settings.memory or run.place["memory_bytes"]) if device == "cpu" else None
        began, started, load = time.monotonic(), pd.Timestamp.now("UTC"), os.getloadavg()[0]
        outcome = self._isolated("train", arguments, memory)
        self.folder.add("runs", [_row(run, settings, outcome) | {"started_at": started, "load_average": load}])
        self.spent.append((self._work(run), time.monotonic() - began))

    def _describe(self, run: ProfilingRun) -> None:
        if run.cluster_id not in self.folder.names("clusters"):
            outcome = self._isolated("figures", {"device": run.place["device"], "threads": run.threads})
            none = dict.fromkeys(("peak_flops", "peak_flops_fp32", "memory_bandwidth"))
            self.folder.add("clusters", [self.clusters[run.cluster_id] | (outcome.result or none)])
        if run.task_id not in self.folder.names("tasks"):
            self.folder.add("tasks", [self._task(run)])

    def _capture(self, subjects: list[Subject]) -> None:
        """Add the graphs that the folder lacks."""
        for subject in subjects:
            if subject.graph_id in self.graphs:
                continue
            outcome = self._isolated("graph", {"model": subject.spec})
            if outcome.message:
                raise DataError(outcome.message)
            tables = outcome.result or {"why": outcome.error or "it took too long"}
            self.graphs.add(subject.graph_id)
            if "why" in tables:
                self.without_graph[subject.graph_id] = tables["why"]
            else:
                self.folder.add_graph(subject.graph_id, *(pd.DataFrame(tables[name]) for name in ("nodes", "edges")))

    def _facts(self, graph_id: str) -> dict[str, Any]:
        """Columns of table tasks that a graph tells; None where it is not known."""
        if graph_id not in self.facts:
            nodes = self.folder.tables["nodes"]
            nodes = nodes[nodes["graph_id"] == graph_id]
            self.facts[graph_id] = dict.fromkeys(("param_count", "flops", "activations", "graph_id"))
            if len(nodes):
                self.facts[graph_id] = {
                    "param_count": int(nodes["param_count"].sum()) or None,
                    "flops": float(nodes["flops"].sum()),
                    "activations": float(activations(nodes).sum()),
                    "graph_id": graph_id,
                }
        return self.facts[graph_id]

    def _task(self, run: ProfilingRun) -> dict[str, Any]:
        subject = run.subject
        whole = {"samples": self.settings.examples_in_all} if self.settings.examples_in_all else {}
        return {
            "task_id": run.task_id,
            "domain": subject.domain,
            "model": subject.model,
            "batch_size": run.batch,
            "input_size": subject.size,
            "precision": run.precision,
            "phase": "train",
            **self._facts(subject.graph_id),
            "family": subject.family,
            "dataset": "synthetic",
            "epochs": self.settings.epochs,
            "optimizer": subject.optimizer,
            **whole,
        }


def _row(run: ProfilingRun, settings: RunSettings, outcome: Outcome) -> dict[str, Any]:
    result = outcome.result or {}
    on_gpu = run.place["device"] != "cpu"
    times = result.get("step_times")
    median, low, high = np.quantile(times, [0.5, 0.1, 0.9]).tolist() if times else (None, None, None)
    return {
        "run_id": run.run_id,
        "task_id": run.task_id,
        "cluster_id": run.cluster_id,
        "attempt": run.attempt,
        "batch_size": run.batch,
        "step_time_s": median,
        "samples_per_s": run.batch / median if median else None,
        "duration_s": result.get("train_s") if settings.epochs else None,
        "status": outcome.status,
        "error": outcome.error,
        "wall_s": outcome.wall_s,
        "cpu_s": outcome.cpu_s,
        # What a run on a GPU took of the host says nothing of the GPU's memory.
        "peak_memory_bytes": result.get("peak_bytes") if on_gpu else outcome.peak_bytes,
        "warmup_steps": settings.warmup,
        "steps": len(times) if times else None,
        "step_time_p10_s": low,
        "step_time_p90_s": high,
    }
