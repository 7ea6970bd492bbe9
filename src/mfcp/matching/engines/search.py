"""Many rounds of tens of tasks: prices, local search and an enumeration that often proves, a millisecond per round."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from mfcp.arrays import Floats, for_kernel
from mfcp.matching.bounds import simple_bound
from mfcp.matching.engines.base import Engine, Found
from mfcp.matching.problem import SLACK, MatchingProblem

_ENTRIES = 2_000_000  # of T worked on at once: a few arrays of 16 MB
_KICKS = 50  # per task at most: small rounds are soon exhausted
_ROUNDING = 1e-12  # relative, of the sums behind a bound
_TAU, _LAM, _BETA = 1e-3, 5e-4, 500.0  # of the relaxed problem that the prices come from, T in units of a fast makespan


class Search(Engine):
    """Iterated local search and implicit enumeration, compiled and batched over rounds.

    Prices of the relaxed problem bound the optimum and give each pair a reduced cost. A plan that beats the best one
    known has a small sum of reduced costs. All plans with so small a sum are looked at, cheapest first, until none is
    left, which proves the optimum, or `budget` is spent. The plan of a round depends on that round alone, not on its
    batch or the number of threads.

    Attributes:
        effort: of the descents from perturbed plans, in neighbours looked at: a tenth before the enumeration, all of
            it where that did not prove.
        budget: plans that the enumeration looks at, per round.
    """

    name: ClassVar[str] = "search"
    takes_price: ClassVar[bool] = True
    takes_zeta: ClassVar[bool] = True
    effort: int = Field(100_000, ge=0)
    budget: int = Field(30_000, ge=0)

    def match(
        self, problem: MatchingProblem, *, price: Floats | None, time_limit: float, start: list[Any] | None
    ) -> Found:
        """Plans of a batch; the work is fixed by the settings, neither a limit nor a start matters."""
        B, M, N = problem.T.shape
        plan, bound = np.full((B, N), -1), np.empty(B)
        step = max(1, _ENTRIES // (M * N))
        for low in range(0, B, step):
            part = slice(low, low + step)
            found = self._part(problem.take(part), None if price is None else price[part])
            plan[part], bound[part] = found.assignment, found.bound
        return Found(plan, bound)

    def _part(self, problem: MatchingProblem, price: Floats | None) -> Found:
        from mfcp.matching.kernels.enumeration_search import search_range
        from mfcp.matching.relaxed.compiled import over_rounds

        B, M, N = problem.T.shape
        bound = simple_bound(problem, price)
        possible = np.ones(B, bool)
        if price is None:
            possible = problem.reachable_gamma() >= problem.gamma - SLACK
            bound = np.where(possible, bound, np.inf)
        plan = np.full((B, N), -1)
        if not possible.any():
            return Found(plan, bound)
        rounds = problem.take(possible)
        fit = None if price is None else price[possible]
        level = rounds.gamma if price is not None else rounds.gamma - SLACK * (1 - 1e-3)
        reduced, floor, q = _priced(rounds, fit)
        # Prices may bound nothing, but a charge must be more than that.
        unit = np.where(floor > 0.0, floor, bound[possible])
        charge = 4.0 * (q + unit) if fit is None else fit
        T, A = (for_kernel(values.swapaxes(1, 2)) for values in (rounds.T, rounds.A))
        zeta = np.zeros((0, 0)) if rounds.zeta is None else rounds.zeta
        plans, value, proven = np.full((len(T), N), -1), np.empty(len(T)), np.zeros(len(T), bool)
        kicks = min(self.effort * M // (N * (M * M + N)), _KICKS * N)
        given = (T, A, zeta, level * N, charge / N, fit is None, reduced, floor)

        def work(first: int, last: int) -> None:
            search_range(*given, kicks, self.budget, first, last, plans, value, proven)

        over_rounds(work, len(T), 100 * M * N)
        plan[possible] = plans
        known = np.where(proven, value, floor) * (1.0 - _ROUNDING)
        bound[possible] = np.maximum(bound[possible], known)
        return Found(plan, bound)


def _priced(problem: MatchingProblem, price: Floats | None) -> tuple[Floats, Floats, Floats]:
    """Reduced costs (B, N, M) of pairs, bounds (B,) and prices q (B,) of mean reliability, from the relaxed problem.

    Every plan's value is at least bound + Σ_j reduced. Under parallel execution the times count at each cluster's
    lowest factor.
    """
    import torch

    from mfcp.matching.relaxed.argmin import solve_relaxed, soonest
    from mfcp.matching.relaxed.objective import relaxed_problem

    T = problem.T.astype(np.float64)
    T = T if problem.zeta is None else T * problem.zeta[:, 1:].min(axis=1)[:, None]
    M, N = T.shape[1:]
    unit = T.min(axis=1).sum(axis=1) / M
    gamma = np.minimum(problem.gamma, problem.reachable_gamma() - 1e-9)
    allowed = None if problem.allowed.all() else torch.from_numpy(problem.allowed.copy())
    times = torch.from_numpy(np.where(problem.allowed, T / unit[:, None, None], 1.0))
    relaxed = relaxed_problem(
        times,
        torch.from_numpy(np.asarray(problem.A, np.float64)),
        torch.from_numpy(np.maximum(gamma, 0.0)),
        _BETA,
        _LAM,
        _TAU,
        allowed,
    )
    found = solve_relaxed(relaxed, backend=soonest(len(times)))
    p, q = found.p.numpy(), np.where(np.isfinite(found.q.numpy()), found.q.numpy(), 0.0) * unit
    if price is not None:
        q = np.minimum(q, price)
    cost = np.where(problem.allowed, p[:, :, None] * np.where(problem.allowed, T, 0.0), np.inf)
    cost = (cost - q[:, None, None] * problem.A / N).swapaxes(1, 2)
    least = cost.min(axis=2)
    level = problem.gamma if price is not None else problem.gamma - SLACK
    return np.ascontiguousarray(cost - least[:, :, None]), least.sum(axis=1) + q * level, q
