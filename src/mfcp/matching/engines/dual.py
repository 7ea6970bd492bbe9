"""Prices, a certified bound and a plan near it: the engine for rounds of hundreds of tasks and more."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import Field

from mfcp.arrays import Ints
from mfcp.errors import SettingsError
from mfcp.matching import clock
from mfcp.matching.engines.base import Engine, Found
from mfcp.matching.engines.exact import Milp
from mfcp.matching.engines.greedy import Greedy
from mfcp.matching.problem import MatchingProblem

if TYPE_CHECKING:
    from mfcp.matching.large.candidates import Prices
    from mfcp.matching.large.linear_relaxation import Relaxation
    from mfcp.matching.large.shards import Shards


_PAIRS = 50_000  # entries up to which HiGHS may find a plan


class Dual(Engine):
    """Prices of clusters and reliability bound the optimum; rounding at them and local search give the plan.

    Args:
        candidates: clusters per task that the prices are fitted on and the search looks at first.
        target: gap to the bound at which the search stops.
        effort: share of the search's usual work, for plans that are worked on further.
        seed: of the local search.
        scheduler: of a Dask cluster whose workers compute the prices, as tcp://host:8786; "" for this process.
    """

    name: ClassVar[str] = "dual"
    takes_price: ClassVar[bool] = True
    takes_zeta: ClassVar[bool] = True
    takes_extended: ClassVar[bool] = True
    candidates: int = Field(10, ge=2)
    target: float = Field(1e-4, ge=0)
    effort: float = Field(1.0, gt=0, le=1)
    seed: int = Field(0, ge=0)
    scheduler: str = ""

    def match_round(self, problem: MatchingProblem, *, price: float | None, time_limit: float, start: Any) -> Found:
        """Bound and plan of one round; the state is its prices."""
        from mfcp.matching.large.plan_search import search
        from mfcp.matching.large.pricing import price as find_prices

        begin = clock.seconds()
        penalty = None if price is None else price / problem.tasks
        known = None if start is None else _known(start, problem)
        with self._place() as place:
            pricing = find_prices(
                problem,
                candidates=self.candidates,
                time_limit=0.6 * time_limit,
                start=known,
                penalty=penalty,
                place=place,
            )
        priced = clock.seconds() - begin
        if np.isposinf(pricing.bound):
            nothing, stats = np.full((1, problem.tasks), -1), {"pricing_seconds": priced, "search_seconds": 0.0}
            return Found(nothing, np.array([np.inf]), [pricing.prices], stats)
        plan = search(
            problem,
            pricing,
            target=self.target,
            effort=self.effort,
            time_limit=time_limit - priced,
            seed=self.seed,
            penalty=penalty,
        )
        if plan[0] < 0:
            plan = self._another(problem, price, time_limit - (clock.seconds() - begin))
        stats = {"pricing_seconds": priced, "search_seconds": clock.seconds() - begin - priced}
        return Found(plan[None], np.array([pricing.bound]), [pricing.prices], stats)

    def _another(self, problem: MatchingProblem, price: float | None, time_limit: float) -> Ints:
        """The plan of another engine, where the search has found none."""
        other: Engine = Greedy() if problem.zeta is not None or problem.T.size > _PAIRS else Milp()
        plan: Ints = other.match_round(problem, price=price, time_limit=max(time_limit, 0.1), start=None).assignment[0]
        return plan

    def _place(self) -> AbstractContextManager[Callable[[Relaxation, int], Shards]]:
        from mfcp.matching.large.shards import Threads

        if not self.scheduler:
            return nullcontext(Threads)
        from mfcp.matching.large.distributed import dask_shards

        return dask_shards(self.scheduler)


def _known(start: Any, problem: MatchingProblem) -> Prices:
    """The prices to start from.

    Raises:
        SettingsError: they are none, or of other clusters or other constraints.
    """
    from mfcp.matching.large.candidates import Prices, rows_of

    shape = (len(rows_of(problem)), problem.clusters)
    if not isinstance(start, Prices) or start.rows.shape != shape or start.seconds.shape != shape[1:]:
        seen = f"prices of (rows, clusters) {start.rows.shape}" if isinstance(start, Prices) else type(start).__name__
        raise SettingsError(
            f"engine 'dual' can start from the state of a round with the same constraints and clusters, {shape}, "
            f"not from {seen}; leave start out"
        )
    return start
