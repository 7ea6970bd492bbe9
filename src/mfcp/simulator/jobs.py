"""Jobs of a trace: what is asked for, and what is true of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from mfcp.arrays import Floats, Ints, Texts
from mfcp.errors import DataError


@dataclass(frozen=True)
class Jobs:
    """n jobs in the order of their submission.

    Attributes:
        id: (n,) names, each once.
        submit: (n,) seconds, ascending.
        gpus: (n,) accelerators asked for: all of them or none (a gang).
        iterations: (n,) to do.
        step: (n,) seconds of one iteration on the accelerators asked for, of speed 1.
        user: (n,) who submitted; empty where unknown.
        kind: (n,) type of job, whose speeds a table may tell; empty where unknown.
        deadline: (n,) absolute seconds; infinite without one.
        overhead: (n,) seconds without progress, whenever the semantics charge them.
        success: (n,) probability that an attempt succeeds.
        milli: (n,) thousandths of each accelerator; below 1,000 only of a single one. Only clocks with a `Placement`
            look at it, and at the next two: elsewhere a job has its accelerators whole.
        cpu, memory: (n,) thousandths of a core, MiB.
        stages: (n, 3) seconds of an iteration that a job loads (storage and processors), computes (accelerators) and
            sends (network); (n, 0) where that is unknown. Only colocated jobs need it.
    """

    id: Texts
    submit: Floats
    gpus: Ints
    iterations: Floats
    step: Floats
    user: Texts = field(default_factory=lambda: np.empty(0, str))
    kind: Texts = field(default_factory=lambda: np.empty(0, str))
    deadline: Floats = field(default_factory=lambda: np.empty(0))
    overhead: Floats = field(default_factory=lambda: np.empty(0))
    success: Floats = field(default_factory=lambda: np.empty(0))
    milli: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    cpu: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    memory: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    stages: Floats = field(default_factory=lambda: np.empty((0, 0)))

    def __post_init__(self) -> None:
        """Fill in what was left out, and check what cannot be simulated.

        Raises:
            DataError: columns of different lengths, or jobs that are not in the order of their submission.
        """
        n = len(self.id)
        if len(self.stages) == 0:
            object.__setattr__(self, "stages", np.empty((n, 0)))
        if self.stages.shape not in ((n, 0), (n, 3)):
            raise DataError(f"jobs: stages has {self.stages.shape}, expected ({n}, 3), or ({n}, 0) for unknown")
        unknown = {
            "user": np.full(n, ""), "kind": np.full(n, ""), "deadline": np.full(n, np.inf),
            "overhead": np.zeros(n), "success": np.ones(n), "milli": np.full(n, 1000),
            "cpu": np.zeros(n, np.int64), "memory": np.zeros(n, np.int64),
        }  # fmt: skip
        for name, values in unknown.items():
            if len(getattr(self, name)) == 0:
                object.__setattr__(self, name, values)
        for name in ("submit", "gpus", "iterations", "step", *unknown):
            if getattr(self, name).shape != (n,):
                raise DataError(f"jobs: {name} has {getattr(self, name).shape}, expected ({n},)")
        if n > 1 and (np.diff(self.submit) < 0).any():
            raise DataError("jobs: not in the order of their submission; sort them by it")

    @cached_property
    def duration(self) -> Floats:
        """(n,) seconds alone on the accelerators asked for, of speed 1."""
        return self.iterations * self.step

    @property
    def service(self) -> Floats:
        """(n,) accelerator-seconds."""
        return self.duration * self.gpus

    def take(self, rows: Ints) -> Jobs:
        """Some of the jobs, which must stay in order."""
        columns = {name: getattr(self, name)[rows] for name in self.__dataclass_fields__}
        return replace(self, **columns)

    @staticmethod
    def simple(submit: Floats, gpus: Ints, duration: Floats, **columns: np.ndarray) -> Jobs:
        """Jobs of one iteration each, named by their number."""
        n = len(submit)
        floats = (np.asarray(values, float) for values in (submit, np.ones(n), duration))
        first, iterations, step = floats
        return Jobs(np.arange(n).astype(str), first, np.asarray(gpus, np.int64), iterations, step, **columns)
