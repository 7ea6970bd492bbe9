"""ADMM between clusters and tasks: fractions and a certified bound, then an integer plan; at its best when repeated."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from mfcp.errors import SettingsError
from mfcp.matching import clock
from mfcp.matching.bounds import simple_bound
from mfcp.matching.decomposition.alternating_directions import State, iterate
from mfcp.matching.decomposition.fractional import Multipliers, RelaxedMatching
from mfcp.matching.decomposition.rounding import rounded
from mfcp.matching.engines.base import Engine, Found
from mfcp.matching.large.candidates import rows_of
from mfcp.matching.problem import SLACK, MatchingProblem

CHECK = 10  # iterations between two looks at bound and value; each costs about one iteration
SHARE = 0.6  # of the time limit that the iterations may take; rounding has the rest


class Admm(Engine):
    """DeDe's algorithm on matching: closed-form steps, all clusters at once and all tasks at once.

    Attributes:
        tolerance: stops when the fractional plan is within this of the bound, relative, or when both residuals are
            below a tenth of it.
        iterations: at most.
    """

    name: ClassVar[str] = "admm"
    takes_extended: ClassVar[bool] = True

    tolerance: float = Field(1e-3, gt=0)
    iterations: int = Field(1000, gt=0)

    def match_round(self, problem: MatchingProblem, *, price: float | None, time_limit: float, start: Any) -> Found:
        """Fractions, then a plan; `start` is the `State` of an earlier round of the same size."""
        begin = clock.seconds()
        nothing = np.full((1, problem.tasks), -1)
        if problem.reachable_gamma() < problem.gamma - SLACK:
            return Found(nothing, np.array([np.inf]), [None], {"iterations": 0, "fraction": np.inf})
        blocks = RelaxedMatching(problem, rows_of(problem))
        first = blocks.cold() if start is None else _warm(start, blocks.cold())
        state, prices, bound, value = self._relax(blocks, first, begin + SHARE * time_limit)
        plan = rounded(problem, blocks.shares(state), blocks.charges(prices), begin + time_limit)
        stats = {"iterations": state.iteration - first.iteration, "fraction": value}
        bounds = np.array([max(bound, float(simple_bound(problem, None)))])
        return Found(nothing if plan is None else plan[None], bounds, [state], stats)

    def _relax(self, blocks: RelaxedMatching, first: State, until: float) -> tuple[State, Multipliers, float, float]:
        """The last state, the prices of the best bound, that bound, and the least objective of any fractions."""
        bound, value = -np.inf, np.inf
        for state in iterate(blocks, first):
            done = state.iteration - first.iteration
            stop = done >= self.iterations or clock.seconds() > until
            if done % CHECK and not stop:
                continue
            for candidate in (state, state.average()):
                now = blocks.multipliers(candidate)
                certified = blocks.bound(now)
                if certified > bound:
                    bound, prices = certified, now
                value = min(value, blocks.value(candidate))
            risen = 0.0 if blocks.linear is not None else blocks.raise_floor(bound / blocks.weight)
            close = not blocks.rows and value <= bound * (1.0 + self.tolerance)  # `value` does not look at the rows
            rests = close or state.residual <= 0.1 * self.tolerance
            if stop or (rests and risen <= self.tolerance):
                break
        return state, prices, bound, value


def _warm(start: Any, cold: State) -> State:
    if not isinstance(start, State) or start.z.shape != cold.z.shape:
        seen = start.z.shape if isinstance(start, State) else type(start).__name__
        raise SettingsError(
            f"engine 'admm' can start from the state of a round with the same clusters and tasks, "
            f"{cold.z.shape}, not from {seen}; leave start out"
        )
    return start
