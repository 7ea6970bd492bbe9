"""Runs that a release has not learned from, as evidence about the tasks that it is asked about."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mfcp.arrays import Bools, Floats, Ints, Texts
from mfcp.data.pool.logged import families
from mfcp.predictors.residuals import Conditioned, ObservedCells, TaskPoints
from mfcp.release.known_tasks import description_keys
from mfcp.rules.base import Belief

if TYPE_CHECKING:
    import pandas as pd


STEP_NOISE = 0.05  # deviation of log time of a few steps, which no log tells
RUN_NOISE = 0.05  # of a finished run, where no pair of the log ran twice
_TOLD, _LEAST = 3, 1e-3  # runs that are named as what moved a task; by a thousandth at least


@dataclass(frozen=True)
class Evidence:
    """What was observed since a release was made.

    Attributes:
        cells: K measured cells, as the release's process of errors sees them.
        shown: identity of a task, as in `cells`, → a name that it ran under.
        run_id: the runs behind them.
    """

    cells: ObservedCells
    shown: dict[str, str]
    run_id: tuple[str, ...] = ()

    def beside(self, other: Evidence) -> Evidence:
        """Both together; a cell that both have counts twice, as two observations of it."""
        mine, more = self.cells, other.cells
        points = TaskPoints(
            *(np.concatenate([getattr(own.points, name) for own in (mine, more)]) for name in ("task", "family", "Z"))
        )
        cells = ObservedCells(
            points,
            *(np.concatenate([getattr(own, n) for own in (mine, more)]) for n in ("cluster", "residual", "variance")),
        )
        return Evidence(cells, self.shown | other.shown, self.run_id + other.run_id)


@dataclass(frozen=True)
class Mover:
    """An observed run that moved what is believed of a task on a cluster.

    Attributes:
        task_id, cluster_id: of the run.
        factor: by which it changes the predicted time.
    """

    task_id: str
    cluster_id: str
    factor: float

    def __str__(self) -> str:
        return f"{self.task_id} on {self.cluster_id}, time x {self.factor:.3f}"


@dataclass(frozen=True)
class Believed:
    """What a release believes of a round, and why.

    Attributes:
        belief: of one round, B = 1.
        errors: (N, M, M) covariance of each task's errors of log time, as the process has it.
        told: what evidence told of each task, None where there was none.
        evidence: that evidence.
        task: (N,) identities of the tasks, as in it; empty where there was none.
        cluster_id: (M,) clusters of the release.
        peak: (M, N) bytes that a step of each task is predicted to take, nan where that is not predicted.
        lacks: (M, N) where a task is not expected to have the memory that it needs.
    """

    belief: Belief
    errors: Floats
    told: Conditioned | None
    evidence: Evidence | None
    task: Texts
    cluster_id: tuple[str, ...]
    peak: Floats
    lacks: Bools

    @property
    def covariance(self) -> Floats:
        """(1, N, M, M) of each task's errors of log time; its diagonal is the square of `belief.log_sd`."""
        spread = np.sqrt(np.diagonal(self.errors, axis1=1, axis2=2))
        scale = self.belief.log_sd[0].T / np.where(spread > 0, spread, 1.0)
        result: Floats = (self.errors * scale[:, :, None] * scale[:, None, :])[None]
        return result

    @property
    def observed(self) -> int:
        """Cells of evidence that told of one of the tasks."""
        return 0 if self.told is None else len(np.unique(np.concatenate(self.told.cells)))

    def movers(self, task: int, cluster: str) -> tuple[Mover, ...]:
        """The observed runs that moved the task's time on a cluster most, at most three, the first most."""
        if self.told is None or self.evidence is None:
            return ()
        parts, cells = self.told.parts[task][self.cluster_id.index(cluster)], self.told.cells[task]
        order = np.argsort(-np.abs(parts), kind="stable")[:_TOLD]
        order = order[np.abs(parts[order]) >= _LEAST]
        seen = self.evidence.cells
        return tuple(
            Mover(
                self.evidence.shown[str(seen.points.task[cells[k]])],
                self.cluster_id[seen.cluster[cells[k]]],
                float(np.exp(parts[k])),
            )
            for k in order
        )

    def measured(self) -> Bools:
        """(M, N) cells of the round that evidence has already."""
        result = np.zeros(self.belief.T.shape[1:], bool)
        if self.evidence is not None:
            seen = self.evidence.cells
            for j, name in enumerate(self.task):
                result[seen.cluster[seen.points.task == name], j] = True
        return result


def points_of(tasks: pd.DataFrame, found: Ints, Z: Floats) -> TaskPoints:
    """The tasks as the process of errors sees them.

    What a release has learned tells nothing more of other tasks, so each learned one is a family of its own.

    Args:
        tasks: rows of table `tasks`.
        found: (n,) entries of what the log measured, -1 for new tasks.
        Z: (n, d) standardised features.
    """
    names = [
        hashlib.sha256((key or f"task_id={name}").encode()).hexdigest()[:16]
        for key, name in zip(description_keys(tasks), tasks["task_id"].astype(str), strict=True)
    ]
    family = families({"tasks": tasks.reindex(columns=["task_id", "model", "family"])})
    own = [f"learned {name}" if k >= 0 else f"family {kin}" for k, name, kin in zip(found, names, family, strict=True)]
    return TaskPoints(np.array(names, np.str_), np.array(own, np.str_), Z)
