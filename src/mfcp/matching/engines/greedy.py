"""List scheduling with a price of reliability: the baseline, and what the exact engines start from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar

import numpy as np

from mfcp.arrays import Floats, Ints, for_kernel
from mfcp.matching import clock
from mfcp.matching.bounds import simple_bound
from mfcp.matching.engines.base import Engine, Found
from mfcp.matching.problem import SLACK, MatchingProblem, objective_value, reliability, violations

_TRIES = 10  # prices of reliability between the one that is too low and the one that is enough
_THRIFT = (0.0, 1.0, 4.0)  # how much a task's own seconds count beside when it is done: few or many tasks per cluster


class Greedy(Engine):
    """Longest processing time first, generalised to unrelated clusters [Graham1969]_; a rule of thumb, no search.

    Tasks go in order of deadline, then longest first, each to where it is done soonest (plus its own seconds there,
    weighed in three ways, and the objective's weights on busy time and cost) less q times its reliability. The price q
    is bisected until the mean reliability is gamma: balance and reliability are bought together, since a repair
    afterwards would undo the balance.

    .. [Graham1969] R. L. Graham, "Bounds on multiprocessing timing anomalies", SIAM J. Applied Mathematics 17, 1969.
    """

    name: ClassVar[str] = "greedy"
    takes_price: ClassVar[bool] = True
    takes_zeta: ClassVar[bool] = True
    takes_extended: ClassVar[bool] = True

    def match_round(self, problem: MatchingProblem, *, price: float | None, time_limit: float, start: Any) -> Found:
        """The best valid plan of a dozen lists, or none; it stops early once the time is over and a plan is valid."""
        end = clock.seconds() + time_limit
        bound = simple_bound(problem, None if price is None else np.asarray(price))
        if price is None and problem.reachable_gamma() < problem.gamma - SLACK:
            bound = np.asarray(np.inf)
        best, least = np.full(problem.tasks, -1), np.inf
        for plan in _plans(problem, price) if np.isfinite(bound) else ():
            value = float(objective_value(problem, plan, price))
            broken = {name for name, excess in violations(problem, plan).items() if excess > 0}
            if value < least and not broken - (set() if price is None else {"reliability"}):
                best, least = plan, value
            if np.isfinite(least) and clock.seconds() > end:
                break
        return Found(best[None], bound[None].astype(np.float64))


def _plans(problem: MatchingProblem, price: float | None) -> Iterator[Ints]:
    """Plans that meet every constraint except perhaps reliability."""
    fastest = problem.T.min(axis=0).astype(np.float64)
    listed = _lister(problem)
    for order in _orders(problem, fastest):
        found = False
        for thrift in _THRIFT:
            for plan in _priced(problem, partial(listed, order, thrift), price, float(fastest.sum())):
                found = True
                yield plan
        if found:
            return


def _priced(
    problem: MatchingProblem, listed: Callable[[float], Ints | None], price: float | None, work: float
) -> Iterator[Ints]:
    """Plans without a price of reliability, at the given one, at an infinite one, and at prices in between."""
    for q in (0.0, *(() if price is None else (price / problem.tasks,)), np.inf):
        plan = listed(q)
        if plan is not None:
            yield plan
            if q == 0.0 and reliability(plan, problem.A) >= problem.gamma:
                return
    low, high = np.log(work / problem.tasks), np.log(work * 100.0)  # a second's worth of one task, of a whole round
    for _ in range(_TRIES):
        middle = (low + high) / 2
        plan = listed(float(np.exp(middle)))
        if plan is not None:
            yield plan
        if plan is not None and reliability(plan, problem.A) >= problem.gamma - SLACK:
            high = middle
        else:
            low = middle


def _orders(problem: MatchingProblem, fastest: Floats) -> Iterator[Ints]:
    """Longest first, then by the largest share of a capacity; deadlines come first in both."""
    due = np.full(problem.tasks, np.inf) if problem.deadline is None else problem.deadline
    yield np.lexsort((-fastest, due))
    if problem.capacities:
        share = np.zeros(problem.tasks)
        for capacity in problem.capacities:
            room = np.where(capacity.limit > 0, capacity.limit, np.inf)[:, None]
            least = np.where(problem.allowed, capacity.use / room, np.inf).min(axis=0)
            share = np.maximum(share, np.where(np.isfinite(least), least, 0.0))
        yield np.lexsort((-share, due))


def _lister(problem: MatchingProblem) -> Callable[[Ints, float, float], Ints | None]:
    """(order, thrift, price of reliability) -> plan; at price inf reliability comes first, all else between equals."""
    from mfcp.matching.kernels.list_schedule import Constraints, construct

    (M, N), weights, R = problem.T.shape, problem.objective, len(problem.capacities)
    use, limit = np.zeros((R, N, M)), np.zeros((R, M))
    for r, capacity in enumerate(problem.capacities):
        use[r], limit[r] = capacity.use.T, capacity.limit
    times, reliabilities = for_kernel(problem.T.T), for_kernel(problem.A.T)
    longest = max(float(times[np.isfinite(times)].max()), 1e-300)
    none = np.zeros((0, 0))
    constraints = Constraints(
        none if problem.cost is None or not weights.cost else for_kernel(problem.cost.T),
        np.zeros(M) if problem.backlog is None else for_kernel(problem.backlog),
        none if problem.zeta is None else for_kernel(problem.zeta),
        np.zeros(0) if problem.deadline is None else for_kernel(problem.deadline),
        use,
        limit,
    )

    def listed(order: Ints, thrift: float, price: float) -> Ints | None:
        plan = np.full(N, -1)
        scale = np.array([weights.makespan, weights.total_time + thrift * weights.makespan, weights.cost])
        first = (scale, price) if np.isfinite(price) else (scale * 1e-12 / longest, 1.0)
        done = construct(times, reliabilities, order, *first, constraints, SLACK, plan)
        return plan if done else None

    return listed
