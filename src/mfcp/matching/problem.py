"""The matching problem of one round, or of a batch of rounds, validated once at the border.

N tasks of a round go to M clusters. `T` and `A` carry the paper's letters [Huo2025]_: execution times
and reliabilities of every (cluster, task) pair. Everything here is numpy, so that matching given
matrices needs neither torch nor a predictor.

.. [Huo2025] Huo et al., ICPP '25, doi:10.1145/3754598.3754610.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from mfcp.arrays import Bools, Floats, Ints, Texts
from mfcp.errors import DataError
from mfcp.matching.checks import (
    broadcast,
    check_entries,
    check_placeable,
    curve_of,
    full,
    in_time,
    matrix,
    numbers,
    raw,
    shut,
    vector,
)

SLACK = 1e-9  # of mean reliability, and of any limit or deadline, may be missed: rounding of the sums, nothing more
EQUAL = 1e-12  # relative difference of two costs or times, and difference of two reliabilities, that is rounding
_CONSTRAINTS = ("allowed", "reliability", "deadline")  # what `violations` names besides the capacities


@dataclass(frozen=True)
class Capacity:
    """A resource that every cluster has so much of: Σ_j use_ij x_ij <= limit_i.

    Args:
        name: what errors and reports call it.
        use: (..., M, N) of task j on cluster i, >= 0, or what broadcasts to it: 1 counts tasks,
            (N,) memory of each task, `gpus[:, None] * T` GPU-seconds.
        limit: (..., M) or what broadcasts to it, >= 0; inf where there is none.
    """

    name: str
    use: Floats
    limit: Floats

    def __init__(self, name: str, use: ArrayLike, limit: ArrayLike) -> None:
        for key, value in (("use", use), ("limit", limit)):
            array = numbers(value, f"capacity '{name}': {key}")
            if not (array >= 0).all() or (key == "use" and not np.isfinite(array).all()):
                raise DataError(f"capacity '{name}': {key} must be at least 0" + (", finite" if key == "use" else ""))
            object.__setattr__(self, key, array)
        object.__setattr__(self, "name", name)


HEAVIEST = 1e12  # weight of an objective: times seconds or money it is still a number


@dataclass(frozen=True)
class Objective:
    """What a plan is to make small: makespan · seconds + total_time · busy seconds of all clusters + cost · money."""

    makespan: float = 1.0
    total_time: float = 0.0
    cost: float = 0.0

    def __post_init__(self) -> None:
        weights = (self.makespan, self.total_time, self.cost)
        if not all(0 <= w <= HEAVIEST for w in weights) or not any(weights):
            raise DataError(f"weights of the objective must be 0 to {HEAVIEST:g} and not all 0, got {weights}")
        for name in ("makespan", "total_time", "cost"):  # kernels would be compiled once more for whole numbers
            object.__setattr__(self, name, float(getattr(self, name)))


@dataclass(frozen=True)
class MatchingProblem:
    """Minimum makespan under a least mean reliability, Eq. (2) of [Huo2025]_, and what a platform adds to it.

    Args:
        T: (..., M, N) execution times, seconds, positive and finite where allowed.
        A: (..., M, N) success probabilities in [0, 1] where allowed.
        gamma: least mean success probability over the N tasks of a round, a number or one per round (...).
        allowed: (..., M, N) booleans, False where a task may not run on a cluster; default all True.
        zeta: (M, N + 1) or (N + 1,) factor on a cluster's summed time when it runs 0, 1, …, N tasks at
            once (parallel execution, Eq. (16)); default all 1, tasks one after another, Eq. (3).
        backlog: (..., M) seconds for which a cluster is busy before it can start; default 0.
        capacities: resources of the clusters.
        deadline: (..., N) seconds by which a task must be done, inf for none. A cluster runs its tasks in order of
            deadline; under parallel execution they all end together.
        objective: what is minimised; default the makespan alone.
        cost: (..., M, N) money for task j on cluster i, >= 0 where allowed.

    Entries that are not allowed may hold anything; they are stored as T = inf, A = 0. A task that cannot meet its
    deadline on a cluster even alone (under parallel execution: even at the cluster's lowest factor) is not allowed
    there; `undated` then keeps T, A and the mask as they were given, for those who ask why there is no plan.
    T and A given as float32 stay so (every sum is float64), else they become float64; without a mask nothing is copied.

    Raises:
        DataError: wrong shapes, non-finite or out-of-range entries; the message names round, cluster and task.
        InfeasibleError: a task with no allowed cluster.
    """

    T: Floats
    A: Floats
    gamma: Floats
    allowed: Bools
    zeta: Floats | None
    backlog: Floats | None
    capacities: tuple[Capacity, ...]
    deadline: Floats | None
    objective: Objective
    cost: Floats | None
    undated: tuple[Floats, Floats, Bools] | None

    def __init__(
        self,
        T: ArrayLike,
        A: ArrayLike,
        gamma: ArrayLike,
        allowed: ArrayLike | None = None,
        zeta: ArrayLike | None = None,
        *,
        backlog: ArrayLike | None = None,
        capacities: Sequence[Capacity] = (),
        deadline: ArrayLike | None = None,
        objective: Objective | None = None,
        cost: ArrayLike | None = None,
    ) -> None:
        times, reliabilities = matrix(T, "T"), matrix(A, "A")
        shape = times.shape
        if shape != reliabilities.shape:
            raise DataError(f"T has shape {shape} but A has {reliabilities.shape}; both must be (..., M, N)")
        mask = broadcast(True if allowed is None else allowed, "allowed", shape, np.bool_)
        check_entries(times, mask, "T", "a positive finite time in seconds", lambda x: ~np.isfinite(x) | (x <= 0))
        check_entries(reliabilities, mask, "A", "a probability in [0, 1]", lambda x: ~((x >= 0) & (x <= 1)))
        levels = broadcast(gamma, "gamma", shape[:-2], np.float64)
        if not np.all((levels >= 0) & (levels <= 1)):
            seen = " to ".join(dict.fromkeys(f"{float(end):.6g}" for end in (levels.min(), levels.max())))
            raise DataError(f"gamma must lie in [0, 1], got {seen}")
        curve = None if zeta is None else curve_of(zeta, *shape[-2:])
        busy_for = None if backlog is None else vector(backlog, "backlog", shape[:-1], "seconds, finite", np.isfinite)
        due, undated = None, None
        if deadline is not None:
            due = vector(deadline, "deadline", (*shape[:-2], shape[-1]), "seconds, inf for none", lambda x: x == x)
            timely = in_time(times, mask, curve, busy_for, due, SLACK)
            if not np.array_equal(timely, mask):
                undated, mask = (times, reliabilities, mask), timely
        if not full(mask):
            check_placeable(mask)
            times, reliabilities = shut(times, mask, np.inf), shut(reliabilities, mask, 0.0)
        money = None
        if cost is not None:
            money = broadcast(cost, "cost", shape, np.float64)
            check_entries(money, mask, "cost", "finite and at least 0", lambda x: ~np.isfinite(x) | (x < 0))
        weights = objective or Objective()
        if weights.cost and money is None:
            raise DataError("the objective weighs cost, but the problem has none; pass cost, (..., M, N)")
        names = [capacity.name for capacity in capacities]
        if len({*names, *_CONSTRAINTS}) < len(names) + len(_CONSTRAINTS):
            raise DataError(f"capacities need names of their own, none of {', '.join(_CONSTRAINTS)}; got {names}")
        for key, value in {
            "T": times,
            "A": reliabilities,
            "gamma": levels,
            "allowed": mask,
            "zeta": curve,
            "backlog": busy_for,
            "capacities": tuple(_fitted(capacity, shape) for capacity in capacities),
            "deadline": due,
            "objective": weights,
            "cost": money,
            "undated": undated,
        }.items():
            object.__setattr__(self, key, value)

    def at(self, gamma: ArrayLike) -> Self:
        """The same rounds under another gamma, clipped to [0, 1]."""
        return self._changed(gamma=np.broadcast_to(np.clip(gamma, 0.0, 1.0), self.T.shape[:-2]))

    def without(self, names: Collection[str]) -> Self:
        """The same rounds less some constraints, named as in `violations`: "reliability", "deadline", a capacity."""
        changes: dict[str, Any] = {"capacities": tuple(c for c in self.capacities if c.name not in names)}
        if "reliability" in names:
            changes["gamma"] = np.zeros(self.T.shape[:-2])
        if "deadline" not in names:
            return self._changed(**changes)
        return self.reopened()._changed(**changes, deadline=None)

    def reopened(self) -> Self:
        """The same rounds with deadlines that close no pair; every plan that breaks one counts as late then."""
        if self.undated is None:
            return self
        times, reliabilities, mask = self.undated
        return self._changed(T=shut(times, mask, np.inf), A=shut(reliabilities, mask, 0.0), allowed=mask, undated=None)

    def take(self, rounds: Any) -> Self:
        """The rounds picked by an index, mask or slice of the first axis."""
        return self._mapped(lambda array: array[rounds])

    def flat(self) -> Self:
        """The same rounds with one leading axis: (B, M, N)."""
        lead = len(self.T.shape) - 2
        return self._mapped(lambda array: array.reshape(-1, *array.shape[lead:]))

    @property
    def clusters(self) -> int:
        """M, the number of clusters."""
        return int(self.T.shape[-2])

    @property
    def tasks(self) -> int:
        """N, the number of tasks of a round."""
        return int(self.T.shape[-1])

    @property
    def plain(self) -> bool:
        """Whether there is nothing beyond T, A, gamma and a mask."""
        return not (self.extended or self.zeta is not None)

    @property
    def extended(self) -> bool:
        """Whether it has backlog, capacities, deadlines or another objective than the makespan."""
        other = self.backlog is not None or self.deadline is not None or bool(self.capacities)
        return other or self.objective != Objective()

    def reachable_gamma(self) -> Floats:
        """(...) the largest mean reliability of any plan that needs only be allowed: mean over tasks of max over i."""
        result: Floats = self.A.max(axis=-2).mean(axis=-1, dtype=np.float64)
        return result

    def linear(self) -> Floats | None:
        """(..., M, N) what task j on cluster i adds to the objective besides the makespan; 0 where not allowed."""
        if not (self.objective.total_time or self.objective.cost):
            return None
        parts = np.zeros(self.T.shape)
        for weight, values in ((self.objective.total_time, self.T), (self.objective.cost, self.cost)):
            if weight and values is not None:
                parts += weight * np.where(self.allowed, values, 0.0)
        return parts

    def _mapped(self, change: Any) -> Self:
        capacities = tuple(
            raw(Capacity, name=c.name, use=change(c.use), limit=change(c.limit)) for c in self.capacities
        )
        names = ("T", "A", "gamma", "allowed", "backlog", "deadline", "cost")
        arrays = {name: getattr(self, name) for name in names}
        undated = self.undated and (change(self.undated[0]), change(self.undated[1]), change(self.undated[2]))
        mapped = {key: None if array is None else change(array) for key, array in arrays.items()}
        return self._changed(capacities=capacities, undated=undated, **mapped)

    def _changed(self, **changes: Any) -> Self:
        """A copy with fields that are known to be valid."""
        changed: Self = raw(type(self), **({f.name: getattr(self, f.name) for f in fields(self)} | changes))
        return changed


@dataclass(frozen=True)
class Solution:
    """A plan for every round of a problem, with what is known of its quality.

    Attributes:
        assignment: (..., N) cluster index of each task; -1 in a round without a plan.
        makespan: (...) seconds, inf in a round without a plan.
        lower_bound: (...) certified lower bound of the least objective (the makespan, unless the problem says
            otherwise; with a price, makespan + price · shortfall); -inf where it was lost.
        status: (...) one of "optimal" (within 1e-6), "feasible", "infeasible", "failed" (no plan was found).
        seconds: wall-clock time of the whole solve.
        engine: the engine that produced it.
        objective: (...) value of the objective, inf in a round without a plan.
        state: what the engine can start from in the next, similar solve: `solve(…, start=solution.state)`.
    """

    assignment: Ints
    makespan: Floats
    lower_bound: Floats
    status: Texts
    seconds: float
    engine: str
    objective: Floats = field(default_factory=lambda: np.array(np.inf))
    state: Any = None
    stats: dict[str, Any] = field(default_factory=dict)

    @property
    def gap(self) -> Floats:
        """(...) objective / lower bound - 1: how far from the optimum at most; nan without a plan or a bound."""
        with np.errstate(divide="ignore", invalid="ignore"):
            known = np.isfinite(self.objective) & (self.lower_bound > 0)
            result: Floats = np.where(known, self.objective / np.where(known, self.lower_bound, 1.0) - 1.0, np.nan)
        met = np.isfinite(self.objective) & (self.objective == self.lower_bound)  # both may be 0
        return np.where(met, 0.0, result)


def loads(assignment: Ints, T: Floats) -> Floats:
    """(..., M) busy seconds of each cluster under a plan; the sum inside Eq. (3) of [Huo2025]_.

    Args:
        assignment: (..., N) cluster index of each task, -1 for a task that is left out.
        T: (..., M, N) seconds.
    """
    return _totals(assignment, _chosen(assignment, T), T.shape[-2])


def makespan(assignment: Ints, T: Floats, zeta: Floats | None = None, backlog: Floats | None = None) -> Floats:
    """(...) seconds until the last task is done.

    Eq. (3) of [Huo2025]_, tasks of a cluster one after another; with `zeta` Eq. (16), where n tasks side
    by side on cluster i take zeta_i(n) times their summed time. The backlog of a cluster that gets no task
    does not count.

    Args:
        assignment: (..., N) cluster index of each task.
        T: (..., M, N) seconds.
        zeta: (M, N + 1) factors, see `MatchingProblem`.
        backlog: (..., M) seconds before a cluster can start.
    """
    ends = busy(assignment, T, zeta)
    if backlog is not None:
        ends = np.where(ends > 0, ends + backlog, 0.0)
    result: Floats = ends.max(axis=-1)
    return result


def busy(assignment: Ints, T: Floats, zeta: Floats | None = None) -> Floats:
    """(..., M) seconds each cluster is occupied; `loads` times the factor of parallel execution."""
    summed = loads(assignment, T)
    if zeta is None:
        return summed
    counts = _totals(assignment, np.ones(assignment.shape), T.shape[-2]).astype(np.int64)
    result: Floats = summed * zeta[np.arange(T.shape[-2]), counts]
    return result


def objective_value(problem: MatchingProblem, assignment: Ints, price: Floats | float | None = None) -> Floats:
    """(...) what the problem minimises, under a plan.

    Args:
        problem: (..., M, N).
        assignment: (..., N), every task placed.
        price: (...) of missing mean reliability, or None where it is a constraint.
    """
    weights = problem.objective
    value = weights.makespan * makespan(assignment, problem.T, problem.zeta, problem.backlog)
    if weights.total_time:
        value = value + weights.total_time * busy(assignment, problem.T, problem.zeta).sum(axis=-1)
    if weights.cost and problem.cost is not None:
        value = value + weights.cost * _chosen(assignment, problem.cost).sum(axis=-1)
    if price is not None:
        value = value + price * np.maximum(problem.gamma - reliability(assignment, problem.A), 0.0)
    return value


def violations(problem: MatchingProblem, assignment: Ints) -> dict[str, Floats]:
    """How far a plan misses each constraint, 0 where it holds; computed from the definitions, apart from any engine.

    Args:
        problem: (..., M, N).
        assignment: (..., N), every task placed.

    Returns:
        By constraint, (...): "allowed" number of tasks where they may not be; "reliability" missing mean
        reliability; a capacity's name: the largest excess of a cluster, in its unit; "deadline" seconds that the
        latest task is late.
    """
    where = assignment[..., None, :]
    short = problem.gamma - reliability(assignment, problem.A)
    found: dict[str, Floats] = {
        "allowed": (~np.take_along_axis(problem.allowed, where, axis=-2)).sum(axis=(-2, -1)).astype(np.float64),
        "reliability": np.where(short > SLACK, short, 0.0),
    }
    for capacity in problem.capacities:
        used = _totals(assignment, _chosen(assignment, capacity.use), problem.clusters)
        over = used - capacity.limit
        found[capacity.name] = np.where(used > capacity.limit * (1.0 + SLACK), over, 0.0).max(axis=-1)
    if problem.deadline is not None:
        with np.errstate(invalid="ignore"):  # inf - inf of a task where it may not be, which counts as such
            ends = _ends(problem, assignment)
            late = ends > problem.deadline * (1.0 + SLACK)
            found["deadline"] = np.where(late, ends - problem.deadline, 0.0).max(axis=-1)
    return found


def _ends(problem: MatchingProblem, assignment: Ints) -> Floats:
    """(..., N) seconds after which each task is done; a cluster runs its tasks in order of deadline."""
    assert problem.deadline is not None  # only then does the order matter
    start = np.zeros(problem.T.shape[:-1]) if problem.backlog is None else problem.backlog
    if problem.zeta is not None:  # side by side: all end together
        ends = start + busy(assignment, problem.T, problem.zeta)
        result: Floats = np.take_along_axis(ends, assignment, axis=-1)
        return result
    lead, M, N = assignment.shape[:-1], problem.clusters, problem.tasks
    cluster = assignment.reshape(-1, N)
    order = np.lexsort((np.broadcast_to(problem.deadline, (*lead, N)).reshape(-1, N), cluster), axis=-1)
    sorted_cluster = np.take_along_axis(cluster, order, axis=-1)
    summed = np.take_along_axis(_chosen(assignment, problem.T).reshape(-1, N), order, axis=-1).cumsum(axis=-1)
    before = np.concatenate([np.zeros((len(cluster), 1)), summed], axis=-1)
    first = np.stack([np.searchsorted(row, np.arange(M)) for row in sorted_cluster])
    begun = np.take_along_axis(before, first, axis=-1)  # (rounds, M) what precedes each cluster's first task
    ends_sorted = summed - np.take_along_axis(begun, sorted_cluster, axis=-1)
    ends_sorted += np.take_along_axis(np.broadcast_to(start, (*lead, M)).reshape(-1, M), sorted_cluster, axis=-1)
    ends = np.empty_like(ends_sorted)
    np.put_along_axis(ends, order, ends_sorted, axis=-1)
    return ends.reshape(*lead, N)


def _chosen(assignment: Ints, values: Floats) -> Floats:
    """(..., N) float64 entries of (..., M, N) `values` that a plan picks."""
    picked = np.take_along_axis(values, np.maximum(assignment, 0)[..., None, :], axis=-2)[..., 0, :]
    result: Floats = picked.astype(np.float64)
    return result


def _totals(assignment: Ints, values: Floats, clusters: int) -> Floats:
    """(..., M) sums of (..., N) `values` by cluster; tasks at -1 are left out."""
    lead = assignment.shape[:-1]
    plans = assignment.reshape(-1, assignment.shape[-1])
    bins = plans + clusters * np.arange(len(plans))[:, None]
    placed = plans >= 0
    summed = np.bincount(bins[placed], values.reshape(plans.shape)[placed], minlength=clusters * len(plans))
    result: Floats = summed.astype(np.float64).reshape(*lead, clusters)
    return result


def reliability(assignment: Ints, A: Floats) -> Floats:
    """(...) mean success probability of the N tasks under a plan.

    Eq. (4) of [Huo2025]_, with the mean over N tasks instead of the printed M·N (docs/equations.md).
    """
    result: Floats = _chosen(assignment, A).mean(axis=-1)
    return result


def _fitted(capacity: Capacity, shape: tuple[int, ...]) -> Capacity:
    """The capacity with `use` (..., M, N) and `limit` (..., M), as views."""
    try:
        use, limit = np.broadcast_to(capacity.use, shape), np.broadcast_to(capacity.limit, shape[:-1])
    except ValueError:
        raise DataError(
            f"capacity '{capacity.name}': use {capacity.use.shape} and limit {capacity.limit.shape} do not fit "
            f"(..., M, N) = {shape} and (..., M) = {shape[:-1]}"
        ) from None
    fitted: Capacity = raw(Capacity, name=capacity.name, use=use, limit=limit)
    return fitted
