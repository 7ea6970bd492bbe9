"""The family of decision rules and what a rule may know: a belief about every pair of a round."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mfcp.arrays import Bools, Floats, Ints
from mfcp.matching.planning import solve_or_fall_back
from mfcp.matching.problem import MatchingProblem
from mfcp.matching.regret import penalised_cost
from mfcp.registry import Registered


@dataclass(frozen=True)
class Belief:
    """Predictions for a batch of rounds, with their calibrated spread.

    Attributes:
        T: (B, M, N) predicted seconds (median of a log-normal).
        A: (B, M, N) predicted success probability.
        log_sd: (B, M, N) standard deviation of log time; 0 where the method has none.
        a_sd: (B, M, N) standard deviation of the predicted probability; 0 where the method has none.
        gamma: (B,) least mean reliability asked for.
        allowed: (B, M, N) which pairs exist.
        zeta: (M, N + 1) factors of parallel execution or None.
    """

    T: Floats
    A: Floats
    log_sd: Floats
    a_sd: Floats
    gamma: Floats
    allowed: Bools
    zeta: Floats | None = None

    def problem(self, *, margin: float | Floats = 0.0) -> MatchingProblem:
        """The matching problem that takes the predictions for the truth, at gamma + margin."""
        return MatchingProblem(
            np.where(self.allowed, self.T, 1.0), self.A, np.clip(self.gamma + margin, 0, 1), self.allowed, self.zeta
        )


class Rule(Registered):
    """How a plan follows from predictions.

    A rule has at most one scalar parameter with candidate values (`candidates`). The choice among them is made on
    validation rounds by `tune`, so that no rule ever sees a test round before it is judged on it.
    """

    uses_spread: ClassVar[bool] = False  # whether plans depend on log_sd and a_sd, hence need a calibration

    def candidates(self) -> tuple[float, ...]:
        """Candidate values of the rule's parameter; a single one when there is nothing to tune."""
        return (0.0,)

    @abstractmethod
    def plan(self, belief: Belief, *, parameter: float, price: float, margin: float = 0.0) -> Ints:
        """(B, N) plans.

        Args:
            belief: predictions for B rounds.
            parameter: one of `candidates`.
            price: cost of missing reliability in makespans per unit (only rules that trade use it).
            margin: added to gamma, to compare rules at equal violation.
        """

    def tune(self, belief: Belief, truth: MatchingProblem, *, price: float) -> float:
        """The parameter of least mean penalised cost on labelled validation rounds; ties go to the first candidate."""
        candidates = self.candidates()
        if len(candidates) == 1:
            return candidates[0]
        unit = solve_or_fall_back(truth).makespan
        costs = [
            penalised_cost(self.plan(belief, parameter=parameter, price=price), truth, price=price, unit=unit).mean()
            for parameter in candidates
        ]
        return candidates[int(np.argmin(costs))]
