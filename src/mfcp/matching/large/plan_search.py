"""The integer half of matching at scale: a plan rounded at the prices, annealed, then worked on by ejection chains.

For prices p, q that certify the bound LB, every plan with makespan θ (weight w) satisfies

    w θ - LB = Σ_j (reduced cost of j's cluster)  +  Σ_i p_i (θ - load_i)  +  q (Σ_j a_j - gamma N),

so a plan is near the bound if its tasks run where they are nearly cheapest, if its clusters end nearly together, and if
it is no more reliable than asked. Few pairs are nearly cheapest. To choose among them is a balancing problem: a single
move changes far more than the gap that is asked for, while a chain of moves can change as little as needed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from mfcp.arrays import Ints
from mfcp.matching import clock
from mfcp.matching.large import annealing
from mfcp.matching.large.candidates import Pricing
from mfcp.matching.large.local_problem import DROP, FEW, LocalProblem, local_problem_of
from mfcp.matching.problem import MatchingProblem, violations

# Temperature at first and at last, stiffness at first and at last: of single moves, then of chains near the best plan.
WARM = (0.03, 0.003, 250.0, 5000.0)
CHAINS = (0.02, 0.008, 6000.0, 6000.0)
LOOSE = (0.06, 0.03, 300.0, 300.0)  # chains of few entries: tasks are too coarse for that
STIFF = 80.0  # least stiffness of chains for each cluster
CROWD = 0.1  # share of the clusters above the level, without chains
ABOVE = 1.02  # level in bounds, to start with
DEPTH = 4  # tasks moved at once
STARTS, MORE = 2, 16  # searches side by side, of which the best counts; MORE up to FEW entries
WORK = (2e6, 1.5e7)  # visits of a pair in each phase; less up to FEW entries
PASSES = (20, 30)  # and so many for each pair
BALANCE, UNEVEN = 1.5e5, 6e8  # and so many in the second phase for each cluster; UNEVEN by (M / N)², up to COARSE
COARSE = 0.03
CHUNK = 1e6  # visits between two looks at the clock


def search(
    problem: MatchingProblem,
    pricing: Pricing,
    *,
    target: float = 1e-4,
    effort: float = 1.0,
    time_limit: float,
    seed: int = 0,
    penalty: float | None = None,
    start: Ints | None = None,
) -> Ints:
    """A plan of one round, rounded at the prices and then improved by simulated annealing.

    Args:
        problem: (M, N).
        pricing: its prices, bound and candidates.
        target: the relative gap to the bound at which to stop.
        effort: share of the usual work.
        time_limit: seconds after which to stop; unless it stops the search, equal seeds give equal plans, whatever the
            number of cores.
        seed: of the annealing.
        penalty: price of a missing unit of summed reliability, or None where reliability is a constraint.
        start: (N,) plan to start from instead of a rounded one; a task at -1 or at a cluster of no use is rounded.

    Returns:
        (N,) cluster of each task; all -1 if no plan was found that meets every constraint.
    """
    end = clock.seconds() + time_limit
    nothing = np.full(problem.tasks, -1)
    if np.isposinf(pricing.bound):
        return nothing
    problems = [local_problem_of(problem, each, penalty) for each in (pricing, *pricing.others)]
    starts = MORE if problem.T.size <= FEW else STARTS

    def annealed(k: int) -> _Annealing:
        local = problems[k % len(problems)]
        annealing = _Annealing(local, pricing.bound, target, effort, end, seed * starts + k)
        annealing.round(start)
        annealing.run()
        return annealing

    with ThreadPoolExecutor(min(starts, len(os.sched_getaffinity(0)))) as threads:
        plan = min(threads.map(annealed, range(starts)), key=_Annealing.objective).clusters()
    if plan is None:
        return nothing
    broken = violations(problem, plan)
    if penalty is not None:
        del broken["reliability"]
    return nothing if any((excess > 0).any() for excess in broken.values()) else plan


class _Annealing:
    """One search: a plan, the best one found, and a random state."""

    def __init__(self, local: LocalProblem, bound: float, target: float, effort: float, end: float, seed: int) -> None:
        self.local, self.bound, self.target, self.end = local, bound, target, end
        self.state = np.random.default_rng(seed).integers(1, 2**63, 1, np.uint64)
        self.draws = -np.log((np.arange(4096) + 0.5) / 4096)
        np.random.default_rng(0).shuffle(self.draws)
        M, size = local.clusters, local.clusters * local.tasks
        self.chains = LOOSE if size <= FEW else (*CHAINS[:2], *np.maximum(CHAINS[2:], STIFF * M))
        part_of = effort * min(1.0, size / FEW)
        self.first, self.second = (
            part_of * (work + passes * len(local.pairs.time)) for work, passes in zip(WORK, PASSES, strict=True)
        )
        self.second += part_of * M * (BALANCE + UNEVEN * min(M / local.tasks, COARSE) ** 2)
        self.plan = local.empty()

    def round(self, start: Ints | None) -> None:
        """Begin with the rounded shares, or with given (N,) clusters where they are among the pairs."""
        pairs, plan, N = self.local.pairs, self.plan, self.local.tasks
        if start is not None:
            task = np.repeat(np.arange(N), np.diff(pairs.start))
            given = pairs.cluster == start[task]
            plan.own[task[given]] = np.flatnonzero(given)
        plan.scalars[annealing.LEVEL] = self.local.floor
        annealing.round_shares(pairs, self.local.terms, plan, self.local.order, 0.3 * N / self.local.clusters)

    def objective(self) -> float:
        """Of the best plan that meets every constraint."""
        return float(self.plan.scalars[annealing.BEST])

    def clusters(self) -> Ints | None:
        """(N,) of that plan."""
        return None if self.plan.best[0] < 0 else self.local.pairs.cluster[self.plan.best].astype(np.int64)

    def run(self) -> None:
        """Both phases."""
        plan = self.plan
        plan.scalars[annealing.LEVEL] = self.local.floor * ABOVE
        self._anneal(WARM, 1, self.first)
        if plan.best[0] >= 0:
            plan.own[:] = plan.best
        self._anneal(self.chains, DEPTH, self.second)

    def _done(self) -> bool:
        return self.objective() <= self.bound * (1.0 + self.target) or clock.seconds() > self.end

    def _anneal(self, curve: Sequence[float], depth: int, total: float) -> None:
        local, plan = self.local, self.plan
        heated = np.array(curve) * np.array([local.unit, local.unit, 1.0, 1.0])
        level = local.floor * (1.0 + 0.5 * self.target)
        schedule = annealing.Schedule(heated, total, depth, CROWD, DROP, level, local.alone)
        plan.scalars[[annealing.WORK, annealing.CURSOR]] = 0.0
        while plan.scalars[annealing.WORK] < total and not self._done():
            until = min(plan.scalars[annealing.WORK] + CHUNK, total)
            annealing.anneal(local.pairs, local.terms, plan, schedule, until, self.draws, self.state)
