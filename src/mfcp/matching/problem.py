"""The matching problem of one round, or of a batch of rounds, validated once at the border.

N tasks of a round go to M clusters. `T` and `A` carry the paper's letters [Huo2025]_: execution times
and reliabilities of every (cluster, task) pair. Everything here is numpy, so that matching given
matrices needs neither torch nor a predictor.

.. [Huo2025] Huo et al., ICPP '25, doi:10.1145/3754598.3754610.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfcp.errors import DataError, InfeasibleError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

SLACK = 1e-9  # mean reliability may miss gamma by this much: rounding of the sums, nothing more


@dataclass(frozen=True)
class MatchingProblem:
    """Minimum makespan under a least mean reliability, Eq. (2) of [Huo2025]_.

    Args:
        T: (..., M, N) execution times, seconds, positive and finite where allowed.
        A: (..., M, N) success probabilities in [0, 1] where allowed.
        gamma: least mean success probability over the N tasks of a round, a number or one per round (...).
        allowed: (..., M, N) booleans, False where a task may not run on a cluster; default all True.
        zeta: (M, N + 1) or (N + 1,) factor on a cluster's summed time when it runs 0, 1, …, N tasks at
            once (parallel execution, Eq. (16)); default all 1, tasks one after another, Eq. (3).

    Entries that are not allowed may hold anything; they are stored as T = inf, A = 0.

    Raises:
        DataError: wrong shapes, non-finite or out-of-range entries, a task with no allowed cluster;
            the message names round, cluster and task.
    """

    T: Floats
    A: Floats
    gamma: Floats
    allowed: Bools
    zeta: Floats | None

    def __init__(
        self,
        T: ArrayLike,
        A: ArrayLike,
        gamma: ArrayLike,
        allowed: ArrayLike | None = None,
        zeta: ArrayLike | None = None,
    ) -> None:
        times, reliabilities = _matrix(T, "T"), _matrix(A, "A")
        if times.shape != reliabilities.shape:
            raise DataError(f"T has shape {times.shape} but A has {reliabilities.shape}; both must be (..., M, N)")
        mask = (
            np.ones(times.shape, bool) if allowed is None else np.broadcast_to(np.asarray(allowed, bool), times.shape)
        )
        levels = np.broadcast_to(np.asarray(gamma, np.float64), times.shape[:-2])
        _check(~np.isfinite(times) | (times <= 0), mask, times, "T", "a positive finite time in seconds")
        _check(~((reliabilities >= 0) & (reliabilities <= 1)), mask, reliabilities, "A", "a probability in [0, 1]")
        if not mask.any(axis=-2).all():
            *where, task = np.argwhere(~mask.any(axis=-2))[0]
            raise InfeasibleError(f"{_round(where)}task {task} has no allowed cluster; allow one or drop the task")
        if not np.all((levels >= 0) & (levels <= 1)):
            raise DataError(f"gamma must lie in [0, 1], got {float(levels.min())} to {float(levels.max())}")
        for key, value in {
            "T": np.where(mask, times, np.inf),
            "A": np.where(mask, reliabilities, 0.0),
            "gamma": levels,
            "allowed": mask,
            "zeta": None if zeta is None else _curve(zeta, times.shape[-2], times.shape[-1]),
        }.items():
            object.__setattr__(self, key, value)

    def at(self, gamma: ArrayLike) -> MatchingProblem:
        """The same rounds under another gamma, clipped to [0, 1]."""
        return MatchingProblem(self.T, self.A, np.clip(gamma, 0.0, 1.0), self.allowed, self.zeta)

    def take(self, rounds: Ints | Bools) -> MatchingProblem:
        """The rounds picked by an index or mask of the first axis."""
        return MatchingProblem(self.T[rounds], self.A[rounds], self.gamma[rounds], self.allowed[rounds], self.zeta)

    @property
    def clusters(self) -> int:
        """M, the number of clusters."""
        return int(self.T.shape[-2])

    @property
    def tasks(self) -> int:
        """N, the number of tasks of a round."""
        return int(self.T.shape[-1])

    def reachable_gamma(self) -> Floats:
        """(...) the largest mean reliability that any plan reaches: mean over tasks of max over clusters."""
        result: Floats = self.A.max(axis=-2).mean(axis=-1)
        return result


@dataclass(frozen=True)
class Solution:
    """A plan for every round of a problem, with what is known of its quality.

    Attributes:
        assignment: (..., N) cluster index of each task; -1 in a round without a plan.
        makespan: (...) seconds, inf in a round without a plan.
        lower_bound: (...) certified lower bound of the optimal makespan, seconds.
        status: (...) one of "optimal", "feasible", "infeasible", "failed".
        seconds: wall-clock time of the whole solve.
        engine: the engine that produced it.
    """

    assignment: Ints
    makespan: Floats
    lower_bound: Floats
    status: NDArray[np.str_]
    seconds: float
    engine: str
    stats: dict[str, Any] = field(default_factory=dict)


def loads(assignment: Ints, T: Floats) -> Floats:
    """(..., M) busy seconds of each cluster under a plan; the sum inside Eq. (3) of [Huo2025]_.

    Args:
        assignment: (..., N) cluster index of each task.
        T: (..., M, N) seconds.
    """
    chosen = assignment[..., None, :] == np.arange(T.shape[-2])[:, None]
    result: Floats = np.where(chosen, T, 0.0).sum(axis=-1)
    return result


def makespan(assignment: Ints, T: Floats, zeta: Floats | None = None) -> Floats:
    """(...) seconds until the last cluster is done.

    Eq. (3) of [Huo2025]_, tasks of a cluster one after another; with `zeta` Eq. (16), where n tasks side
    by side on cluster i take zeta_i(n) times their summed time.

    Args:
        assignment: (..., N) cluster index of each task.
        T: (..., M, N) seconds.
        zeta: (M, N + 1) factors, see `MatchingProblem`.
    """
    result: Floats = busy(assignment, T, zeta).max(axis=-1)
    return result


def busy(assignment: Ints, T: Floats, zeta: Floats | None = None) -> Floats:
    """(..., M) seconds each cluster is occupied; `loads` times the factor of parallel execution."""
    summed = loads(assignment, T)
    if zeta is None:
        return summed
    counts = (assignment[..., None, :] == np.arange(T.shape[-2])[:, None]).sum(axis=-1)
    result: Floats = summed * zeta[np.arange(T.shape[-2]), counts]
    return result


def reliability(assignment: Ints, A: Floats) -> Floats:
    """(...) mean success probability of the N tasks under a plan.

    Eq. (4) of [Huo2025]_, with the mean over N tasks instead of the printed M·N (docs/equations.md).
    """
    result: Floats = np.take_along_axis(A, assignment[..., None, :], axis=-2)[..., 0, :].mean(axis=-1)
    return result


def _matrix(value: ArrayLike, name: str) -> Floats:
    try:
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} is not a numeric array: {error}") from None
    if array.ndim < 2 or 0 in array.shape:
        raise DataError(f"{name} must have shape (..., M, N) with M, N >= 1, got {array.shape}")
    return array


def _curve(zeta: ArrayLike, clusters: int, tasks: int) -> Floats:
    curve = np.asarray(zeta, np.float64)
    if curve.ndim not in (1, 2) or curve.shape[-1] != tasks + 1 or curve.shape[:-1] not in ((), (clusters,)):
        raise DataError(f"zeta must have shape (M, N + 1) = ({clusters}, {tasks + 1}) or (N + 1,), got {curve.shape}")
    if not (np.isfinite(curve) & (curve > 0)).all():
        raise DataError("zeta must hold positive finite factors")
    return np.broadcast_to(curve, (clusters, tasks + 1)).copy()


def _check(bad: Bools, mask: Bools, values: Floats, name: str, expected: str) -> None:
    if (bad & mask).any():
        *where, cluster, task = np.argwhere(bad & mask)[0]
        seen = values[(*where, cluster, task)]
        raise DataError(f"{_round(where)}{name}[{cluster}, {task}] = {seen}: expected {expected}")


def _round(where: Any) -> str:
    return f"round {', '.join(str(int(i)) for i in where)}: " if len(where) else ""
