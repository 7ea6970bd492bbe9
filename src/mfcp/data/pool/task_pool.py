"""The task pool: times and reliabilities of tasks on clusters, what methods learn from and are judged by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from mfcp.arrays import Bools, Floats, Ints, Texts
from mfcp.border.json_text import read_json
from mfcp.errors import DataError
from mfcp.files import replacing, write_json

PARTS_EMULATED = ("runs", "samples", "pool_size", "failures")
"""What of a pool can be emulated; `TaskPool.emulated` is a part of these."""


@dataclass(frozen=True)
class TaskPool:
    """n tasks on M clusters, checked once here and trusted afterwards.

    Attributes:
        task_id: (n,) unique names.
        family: (n,) group that a split never divides.
        source_task: (n,) row of table `tasks` that a task stands for; replicas share it.
        cluster_id: (M,) unique names.
        T: (M, n) observed seconds, nan where unknown.
        A: (M, n) observed share of succeeded among finished runs, nan where there is none.
        runs: (M, n) finished runs behind A.
        allowed: (M, n) pairs whose T and A are known.
        samples: (n,) samples that a task processes; where the log tells durations only, the median of the others or 1.
        pool_size: (M,) accelerators side by side on one task.
        T_true, A_true: (M, n) expected values where an emulator knows them; used in evaluation only.
        emulated: what is emulated, of `PARTS_EMULATED`.
        notes: what was left out, and why.
        per_sample: T is seconds of one sample, since the log tells no task's work.
        reliability_known: runs were counted and some failed, or failures are emulated; else A is 1 and says nothing.

    Raises:
        DataError: shapes, names or values that contradict the above.
    """

    task_id: Texts
    family: Texts
    source_task: Texts
    cluster_id: Texts
    T: Floats
    A: Floats
    runs: Ints
    allowed: Bools
    samples: Floats
    pool_size: Floats
    T_true: Floats | None = None
    A_true: Floats | None = None
    emulated: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    per_sample: bool = False
    reliability_known: bool = True

    def __post_init__(self) -> None:
        n, m = len(self.task_id), len(self.cluster_id)
        shapes: dict[str, tuple[int, ...]] = {"family": (n,), "source_task": (n,), "samples": (n,), "pool_size": (m,)}
        shapes |= dict.fromkeys(("T", "A", "runs", "allowed", "T_true", "A_true"), (m, n))
        for name, shape in shapes.items():
            value = getattr(self, name)
            if value is not None and value.shape != shape:
                raise DataError(f"task pool: {name} has shape {value.shape}, expected {shape} (M clusters, n tasks)")
        for name in ("task_id", "cluster_id"):
            names, counts = np.unique(getattr(self, name), return_counts=True)
            if (counts > 1).any():
                raise DataError(f"task pool: {name} '{names[counts > 1][0]}' occurs twice")
        unknown = sorted(set(self.emulated) - set(PARTS_EMULATED))
        if unknown:
            raise DataError(f"task pool: emulated names {unknown[0]}, expected of {', '.join(PARTS_EMULATED)}")
        self._check("T", self.T, lambda v: np.isfinite(v) & (v > 0), "positive finite seconds")
        self._check("A", self.A, lambda v: (v >= 0) & (v <= 1), "a probability in [0, 1]")

    def _check(self, name: str, values: Floats, valid: Any, expected: str) -> None:
        bad = self.allowed & ~valid(values)
        if bad.any():
            i, j = np.argwhere(bad)[0]
            where = f"cluster {self.cluster_id[i]}, task {self.task_id[j]}"
            raise DataError(f"task pool, {where}: {name} is {values[i, j]}, expected {expected}")

    def select(
        self, *, clusters: Sequence[int] | Ints | None = None, tasks: Sequence[int] | Ints | Bools | None = None
    ) -> TaskPool:
        """The pool of some clusters and tasks, given by index (tasks also by mask), in that order."""
        i = np.arange(len(self.cluster_id)) if clusters is None else np.asarray(clusters, dtype=np.int64)
        j = np.arange(len(self.task_id))
        j = j if tasks is None else j[np.asarray(tasks)]
        changes = {
            name: value[np.ix_(i, j)] if value.ndim == 2 else value[i if name in _PER_CLUSTER else j]
            for name, value in self._arrays().items()
        }
        return replace(self, **changes)

    def save(self, folder: Path) -> None:
        """Write pool.safetensors (numbers) and pool.json (names), each whole or not at all."""
        from safetensors.numpy import save_file

        arrays = self._arrays()
        with replacing(Path(folder) / "pool.safetensors") as path:
            save_file({k: np.ascontiguousarray(v) for k, v in arrays.items() if v.dtype.kind != "U"}, path)
        names = {k: v.tolist() for k, v in arrays.items() if v.dtype.kind == "U"}
        write_json(Path(folder) / "pool.json", names | {name: getattr(self, name) for name in (*_TUPLES, *_FLAGS)})

    @staticmethod
    def load(folder: Path) -> TaskPool:
        """Read what `save` wrote.

        Raises:
            DataError: a file is missing, damaged or of another pool.
        """
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        names = read_json(Path(folder) / "pool.json")
        try:
            values: dict[str, Any] = load_file(Path(folder) / "pool.safetensors")
            values |= {k: np.array(names[k], dtype=np.str_) for k in _TEXTS}
            values |= {k: tuple(names[k]) for k in _TUPLES} | {k: bool(names[k]) for k in _FLAGS}
            return TaskPool(**values)
        except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
            raise DataError(f"{folder}: not a whole task pool ({error}); run the stage that makes it again") from None

    def _arrays(self) -> dict[str, Any]:
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}


_PER_CLUSTER = ("cluster_id", "pool_size")
_TEXTS = ("task_id", "family", "source_task", "cluster_id")
_TUPLES = ("emulated", "notes")
_FLAGS = ("per_sample", "reliability_known")
