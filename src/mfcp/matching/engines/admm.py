"""ADMM between clusters and tasks: fractions and a certified bound, then an integer plan; at its best when repeated."""

from __future__ import annotations

import time
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from mfcp.errors import SettingsError
from mfcp.matching.admm.core import State, iterate
from mfcp.matching.admm.relaxed import Multipliers, RelaxedMatching
from mfcp.matching.admm.rounding import rounded
from mfcp.matching.engines.base import Engine, Found
from mfcp.matching.large.candidates import rows_of
from mfcp.matching.problem import SLACK, MatchingProblem

CHECK = 10  # iterations between two looks at bound and value; each costs about one iteration
MEMORY = 0.7  # of averaged prices from check to check: an average certifies more than its members
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
        begin = time.perf_counter()
        nothing = np.full((1, problem.tasks), -1)
        if problem.reachable_gamma() < problem.gamma - SLACK:
            return Found(nothing, np.array([np.inf]), [None], {"iterations": 0, "fraction": np.inf})
        floor = _least_end(problem)
        blocks = RelaxedMatching(problem, rows_of(problem), floor)
        first = blocks.cold() if start is None else _warm(start, blocks.cold())
        best, value, average = -np.inf, np.inf, None
        for state in iterate(blocks, first):
            done = state.iteration - first.iteration
            stop = done >= self.iterations or time.perf_counter() - begin > SHARE * time_limit
            if done % CHECK and not stop:
                continue
            now = blocks.multipliers(state)
            average = now if average is None else _mixed(average, now)
            for candidate in (now, average):
                certified = blocks.bound(candidate)
                if certified > best:
                    best, prices = certified, candidate
            value = blocks.value(state)
            if stop or state.residual <= 0.1 * self.tolerance:
                break
            if len(blocks.limit) == 1 and value <= best * (1.0 + self.tolerance):
                break
        plan = rounded(problem, blocks.shares(state), blocks.charges(prices), begin + time_limit)
        stats = {"iterations": done, "fraction": value}
        return Found(
            nothing if plan is None else plan[None],
            np.array([max(best, _trivial_bound(problem, floor))]),
            [state],
            stats,
        )


def _least_end(problem: MatchingProblem) -> float:
    """Seconds before which no plan of one round ends: the last task, on its best cluster."""
    ends = problem.T if problem.backlog is None else problem.T + problem.backlog[:, None]
    return float(np.where(problem.allowed, ends, np.inf).min(axis=0).max())


def _trivial_bound(problem: MatchingProblem, floor: float) -> float:
    linear = problem.linear()
    least = 0.0 if linear is None else float(np.where(problem.allowed, linear, np.inf).min(axis=0).sum())
    return problem.objective.makespan * floor + least


def _warm(start: Any, cold: State) -> State:
    if not isinstance(start, State) or start.z.shape != cold.z.shape:
        seen = start.z.shape if isinstance(start, State) else type(start).__name__
        raise SettingsError(
            f"engine 'admm' can start from the state of a round with the same clusters and tasks, "
            f"{cold.z.shape}, not from {seen}; leave start out"
        )
    return start


def _mixed(old: Multipliers, new: Multipliers) -> Multipliers:
    """Averages keep signs and the sum of the times' prices, so that they certify too."""

    def mix(a: Any, b: Any) -> Any:
        return MEMORY * a + (1.0 - MEMORY) * b

    return Multipliers(mix(old.rows, new.rows), mix(old.reliability, new.reliability))
