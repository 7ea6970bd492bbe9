"""Prices of one round's constraints, the bound that they certify, and a few candidate clusters per task.

The linear relaxation lets a task be split. With the makespan's weight w, B rows per cluster (the makespan's and those
of `rows_of`) and the reliability row, it is

    min w θ + Σ c_ij x_ij,   load_i <= θ,   Σ_j use_rij x_ij <= limit_ri,   Σ a_ij x_ij >= gamma N,   Σ_i x_ij = 1,

and any prices p >= 0 with Σ p = w, π >= 0, q >= 0 certify (weak duality)

    Σ_j min_i (p_i t_ij + c_ij + Σ_r π_ri use_rij - q a_ij) + q gamma N - Σ π limit <= every plan's objective.

Column generation [Gondzio2013]_ finds such prices. A primal-dual interior point method solves the relaxation on W
candidates per task; its prices stay central and so do not swing. A dense pass over all clusters then certifies the
bound and proposes new candidates. Both repeat until they meet. A sample of tasks goes first. It is drawn by cost, so
that long tasks are always in it.

All data about tasks live in shards, which see prices only. Sums over shards are taken in a fixed order.

.. [Gondzio2013] Gondzio, González-Brevis, Munari, EJOR 224, 2013, doi:10.1016/j.ejor.2012.07.024.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np
from numpy.typing import NDArray

from mfcp.arrays import Floats
from mfcp.matching import clock
from mfcp.matching.bounds import apart_bound
from mfcp.matching.large.branch_and_bound import Branch, branch, masked
from mfcp.matching.large.candidates import Prices, Pricing, gather, rows_of
from mfcp.matching.large.column_generation import certified, generate
from mfcp.matching.large.diving import FixedTasks, fix_long_tasks
from mfcp.matching.large.identical_tasks import alike, dealt
from mfcp.matching.large.linear_relaxation import Relaxation, draw, guess, relax
from mfcp.matching.large.local_problem import SMALL
from mfcp.matching.large.lp_interior_point import Progress
from mfcp.matching.large.shards import Shards, Threads, whole_plan
from mfcp.matching.problem import SLACK, MatchingProblem
from mfcp.threads import one_blas_thread

_VALUES = 6  # relaxations beyond the first, at most
_LARGE = 10**7  # entries from which on fixing long tasks takes longer than a search
_BRANCHING, _BRANCHES = 10**7, 40  # entries of all branches together and their number: they take as long as a search
_WHOLE = 0.03  # share of a cluster in parts of one long task from which on it gets a branch; or of the task
_FEWEST = 3  # branches of one long task at least: on the clusters that have parts of it, and elsewhere
_STARTS = 3  # branches that searches start from
_CHEAP = 10**6  # entries up to which accuracy costs hardly any time
_HOPELESS = 2.0  # where the longest task takes so many times the relaxation's bound, prices do not matter
_EPS = float(np.finfo(np.float64).eps)


def price(
    problem: MatchingProblem,
    *,
    candidates: int = 10,
    tolerance: float | None = None,
    time_limit: float,
    start: Prices | None = None,
    penalty: float | None = None,
    fixing: bool = True,
    place: Callable[[Relaxation, int], Shards] = Threads,
) -> Pricing:
    """Prices, certified bound and candidates of one round.

    Tasks that are equal in everything are one task of the relaxation, whose mass is their number. Where the makespan is
    all that counts, long tasks are fixed, and the candidates are those of the relaxation of the rest.

    Args:
        problem: one round (M, N).
        candidates: clusters per task, at most.
        tolerance: relative gap between the bound and the relaxation that is good enough; by default far below what the
            integer plan loses anyway, which grows with M / N.
        time_limit: seconds, looked at between steps.
        start: prices of a similar round, of the same clusters and rows; saves the sample.
        penalty: price of a unit of missing Σ a, instead of the constraint.
        fixing: whether to fix long tasks and to branch on them where that seems right. If not, the bound is the
            relaxation's.
        place: where the shards of a relaxation with so many candidates are kept.
    """
    begun = clock.seconds()
    rounds = _Relaxations(problem, candidates, tolerance, begun + time_limit, penalty, place)
    with one_blas_thread():
        known = None if start is None else relax(rounds.problem, rounds.least, penalty, np.inf).vector(start)
        solved = rounds.solve(np.inf, rounds.least, known, 1.0 if known is None else 0.05)
        solved, bound = rounds.raised(solved)
        if not rounds.possible or _impossible(solved):
            bound = np.inf
        if not np.allclose(rounds.typical / rounds.typical[0], rounds.least / rounds.least[0]):
            solved = rounds.solve(np.inf, rounds.typical, solved.found.best, 0.1)
        prices = solved.data.named(solved.found.best)
        long_tasks, solved, bound = rounds.fixed(solved, bound, fixing)
        several, bound = rounds.branched(solved, bound, fixing)
    stats = rounds.stats | {"value": several[0].found.value, "seconds": clock.seconds() - begun}

    def proposed(solved: _Solved) -> Pricing:
        cluster, share = solved.plan()
        if long_tasks is not None:
            cluster, share = long_tasks.together(cluster, share)
        if rounds.kinds is not None:
            cluster, share = dealt(cluster, share, rounds.kinds, candidates)
        around = solved.data.named(solved.found.best)
        around = replace(around, seconds=around.seconds * solved.data.speed / rounds.typical)
        chosen = replace(gather(problem, rows_of(problem), cluster), share=share)
        return Pricing(prices, around, bound, chosen, stats)

    first, *others = map(proposed, several)
    return replace(first, others=tuple(others))


@dataclass(frozen=True)
class _Solved:
    """A relaxation, its shards, and the state in which column generation ended."""

    data: Relaxation
    shards: Shards
    found: Progress

    def plan(self) -> tuple[NDArray[np.int32], Floats]:
        """(n, W) candidates and shares."""
        return whole_plan(self.shards)


class _Relaxations:
    """The relaxations of one round, solved one after another, each from the prices of the last.

    Attributes:
        problem: the round, asked for as much reliability as it can have.
        possible: whether that is what was asked for.
        kinds: (N,) of the tasks, or None; see `alike`.
        least, typical: (M,) see `_factors`.
        longest: makespan that no plan is below, whatever it does with the other tasks.
        floor: objective that no plan is below for that reason.
        stats: counts, for reports.
    """

    def __init__(
        self, problem: MatchingProblem, candidates: int, tolerance: float | None, deadline: float,
        penalty: float | None, place: Callable[[Relaxation, int], Shards],
    ) -> None:  # fmt: skip
        self.deadline, self.penalty, self.place = deadline, penalty, place
        self.reachable = float(problem.reachable_gamma())
        self.possible = penalty is not None or self.reachable >= problem.gamma - SLACK
        self.problem = problem if self.possible else problem.at(self.reachable)
        self.kinds, self.width = alike(problem), candidates
        if self.kinds is not None:
            self.width = min(problem.clusters, candidates * round((problem.tasks / (1 + self.kinds.max())) ** 0.5))
        self.least, self.typical = _factors(problem)
        longest, linear = _alone(problem, self.least)
        self.longest = apart_bound(problem, longest)
        self.floor = problem.objective.makespan * self.longest + linear
        self.tolerance = _tolerance(problem) if tolerance is None else tolerance
        self.stats = {"passes": 0.0, "sample_passes": 0.0, "steps": 0.0, "relaxations": 0.0}

    def solve(self, value: float, factor: Floats, known: Floats | None, off: float) -> _Solved:
        """Solve the relaxation of plans below `value`, from prices with a relative error of `off`, or from scratch."""
        data = relax(self.problem, factor, self.penalty, value)
        if self.kinds is not None:
            first, many = np.unique(self.kinds, return_index=True, return_counts=True)[1:]
            data = data.take(first, many.astype(np.float64))
        size = max(8 * self.problem.clusters, 2000)
        vector = guess(data) if known is None else known
        if known is None and 3 * size <= len(data.mass):
            sample, _ = draw(data, vector, size, self.reachable * self.problem.tasks)
            found = generate(
                sample, Threads(sample, self.width), vector, width=self.width, tolerance=1e-2, off=1.0,
                deadline=self.deadline, floor=self.floor, hopeless=_HOPELESS,
            )  # fmt: skip
            vector, off = (found.vector, 0.05) if np.isfinite(found.value) else (found.best, 1.0)
            self.stats["sample_passes"] += found.passes
            self.stats["steps"] += found.steps
        return self._generate(data, vector, off, self.floor, _HOPELESS)

    def raised(self, solved: _Solved) -> tuple[_Solved, float]:
        """The bound, and the relaxation that certifies it where it is another one.

        No plan with an objective below V uses a pair that alone takes longer than V, nor a cluster that is busy for
        longer, and each cluster's load is at most 1 - backlog / V of the makespan. With that in the relaxation, its
        value F falls as V grows, and min(V, F(V)) is a bound, whatever V is; the best is where the two meet. A few V
        are tried where backlog or long tasks make it worth the time.
        """
        bound, backlog = max(solved.found.bound, self.floor), self.problem.backlog is not None
        longest = self.problem.objective.makespan * self.longest
        long_task = 0.5 * solved.found.bound < longest < 1.2 * solved.found.bound
        if solved.found.bound == np.inf or not (backlog or long_task):
            return solved, bound
        first = solved.found.value if np.isfinite(solved.found.value) else bound
        high = most = np.inf  # a V above its F(V); the F of a smaller V, which no larger V exceeds
        growth = 0.05 if backlog else 0.001
        for _ in range(_VALUES):
            near = high - bound <= 1e-3 * abs(bound) or most - bound <= 3e-4 * abs(bound)
            if near or clock.seconds() > self.deadline:
                break
            if np.isfinite(high):
                value = 0.5 * (bound + high)
            else:  # F is often the same from one V to the next
                value = min(max(first, bound) + growth * abs(bound), most * (1.0 + 1e-4))
            growth *= 4.0
            tried = self.solve(value, self.least, solved.found.best, 0.01)
            if tried.found.bound < value:
                high = value
            else:
                most = min(most, tried.found.value)
            if min(value, tried.found.bound) > bound:
                bound = min(value, tried.found.bound)
                if np.isfinite(tried.found.value):
                    solved = tried
        return solved, bound

    @property
    def has_long_tasks(self) -> bool:
        """Whether only the makespan counts, so that long tasks matter, and tasks differ."""
        weights = self.problem.objective
        alone = weights.makespan and not (weights.total_time or weights.cost)
        return bool(alone) and self.kinds is None

    def branched(self, solved: _Solved, bound: float, fixing: bool) -> tuple[list[_Solved], float]:
        """Relaxations of a small round with its long tasks in different places, best first, and their bound."""
        possible = np.isfinite(bound) and np.isfinite(solved.found.value)
        small = self.problem.T.size <= SMALL  # then the search finds places for long tasks itself
        if not (fixing and self.has_long_tasks and possible and small):
            return [solved], bound
        value, bound, open_ = self._branches(solved, bound)
        data = relax(self.problem, self.typical, self.penalty, value)
        tried = [self._generate(replace(data, T=masked(data, best.places)), best.vector, 0.01, 0.0) for best in open_]
        return [each for each in tried if np.isfinite(each.found.value)] or [solved], bound

    def fixed(self, solved: _Solved, bound: float, fixing: bool) -> tuple[FixedTasks | None, _Solved, float]:
        """Long tasks fixed on clusters, the relaxation of the other tasks, and a bound that may be higher.

        Where long tasks do not matter or have no room: None and the arguments.
        """
        longest = self.floor > _HOPELESS * max(solved.found.bound, 0.0)
        possible = np.isfinite(bound) and (longest or np.isfinite(solved.found.value))
        size = self.problem.T.size
        # A large round with room to spare is mostly searched as well without, in less time.
        worth = size > SMALL and not (longest and size > _LARGE)
        if not (fixing and self.has_long_tasks and possible and worth):
            return None, solved, bound
        value, vector = bound * (1.0 + self.slack), solved.found.best
        data = relax(self.problem, self.typical, self.penalty, value)
        _, bound, open_ = self._branches(solved, bound)
        if open_:
            data, vector = replace(data, T=masked(data, open_[0].places)), open_[0].vector
        long_tasks = fix_long_tasks(
            data, vector, floor=bound, spare=self.slack / (1.0 + self.slack), longest=longest,
            width=self.width, reach=self.reachable * self.problem.tasks, deadline=self.deadline,
        )  # fmt: skip
        if long_tasks is None:
            return None, solved, bound
        tried = self._generate(long_tasks.rest, long_tasks.vector, 0.02, bound)
        return (long_tasks, tried, bound) if np.isfinite(tried.found.value) else (None, solved, bound)

    @property
    def slack(self) -> float:
        """Relative distance between the bound and the makespan of a good plan."""
        return 0.5 * self.problem.clusters / self.problem.tasks

    def _branches(self, solved: _Solved, bound: float) -> tuple[float, float, list[Branch]]:
        """A makespan, the bound, and the best branches on long tasks that may have plans below that makespan."""
        value = bound * (1.0 + self.slack)
        most = min(_BRANCHES, int(_BRANCHING // self.problem.T.size))
        longest = solved.found.bound <= self.floor
        if longest or most < _FEWEST:  # nothing to raise, or no time to
            return value, bound, []
        bound, open_ = branch(
            relax(self.problem, self.least, self.penalty, value), solved.found.best, *solved.plan(), bound=bound,
            value=value, most=most, whole=max(_WHOLE, 2.0 * self.slack), width=self.width, tolerance=0.2 * self.slack,
            deadline=self.deadline,
        )  # fmt: skip
        return value, bound, open_[:_STARTS]

    def _generate(
        self, data: Relaxation, vector: Floats, off: float, floor: float, hopeless: float = np.inf
    ) -> _Solved:
        shards = self.place(data, self.width)
        found = generate(
            data, shards, vector, width=self.width, tolerance=self.tolerance, off=off, deadline=self.deadline,
            floor=floor, hopeless=hopeless,
        )  # fmt: skip
        self.stats["passes"] += found.passes
        self.stats["steps"] += found.steps
        self.stats["relaxations"] += 1
        return _Solved(data, shards, found)


def _tolerance(problem: MatchingProblem) -> float:
    if problem.T.size <= _CHEAP:
        return 1e-4
    return float(np.clip(0.1 * problem.clusters / problem.tasks, 1e-4, 1e-3))


def _factors(problem: MatchingProblem) -> tuple[Floats, Floats]:
    """(M,) least factor of parallel execution, for bounds; and the factor at an equal share of the tasks."""
    if problem.zeta is None:
        return np.ones(problem.clusters), np.ones(problem.clusters)
    even = max(1, round(problem.tasks / problem.clusters))
    return problem.zeta[:, 1:].min(axis=1), problem.zeta[:, even]


def _alone(problem: MatchingProblem, least: Floats) -> tuple[float, float]:
    """The largest over tasks of the earliest end that each can have alone, and Σ_j of the least linear objective."""
    weights = problem.objective
    wait = None if problem.backlog is None else problem.backlog[:, None]
    longest = linear = 0.0
    for low in range(0, problem.tasks, 4096):
        part = slice(low, low + 4096)
        T = problem.T[:, part] if problem.zeta is None else least[:, None] * problem.T[:, part]
        longest = max(longest, float((T if wait is None else T + wait).min(axis=0).max()))
        if not weights.total_time and not weights.cost:
            continue
        parts = weights.total_time * T if weights.total_time else np.where(np.isfinite(T), 0.0, np.inf)
        if weights.cost and problem.cost is not None:
            parts = np.where(np.isfinite(T), parts + weights.cost * problem.cost[:, part], np.inf)
        linear += float(parts.min(axis=0).sum())
    safe = 1.0 - (4 + problem.tasks) * _EPS
    return longest * safe, linear * safe


def _impossible(solved: _Solved) -> bool:
    """Whether prices certify more than any plan can cost: the constraints cannot be met."""
    data, shards, found = solved.data, solved.shards, solved.found
    if np.isfinite(found.value) or not data.rows:
        return False
    each = data.weight * data.speed + data.hourly
    most = np.zeros(len(data.mass))
    for i, seconds in enumerate(data.T):
        cost = each[i] * np.where(np.isfinite(seconds), seconds, 0.0)
        if data.money is not None:
            cost += np.where(np.isfinite(seconds), data.money[i], 0.0)
        most = np.maximum(most, cost)
    limits, edge = data.limits()
    for scale in (1.0, 1e2, 1e4, 1e6):
        ray = np.where(edge > 0, found.best, np.minimum(scale * found.best, 1e100))
        ray[-1] = min(ray[-1], data.penalty)
        total = reduce(add, shards.each("price", ray, 0.0, 0))
        if certified(data, ray, limits, total) > 2.0 * (
            data.mass @ most + min(data.penalty, 1e100) * data.need * (data.penalty < np.inf)
        ):
            return True
    return False
