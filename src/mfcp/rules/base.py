"""The family of decision rules and what a rule may know: a belief about every pair of a round."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from mfcp.arrays import Bools, Floats, Ints
from mfcp.matching.planning import solve_or_fall_back
from mfcp.matching.problem import MatchingProblem
from mfcp.matching.regret import penalised_cost
from mfcp.registry import Registered

WIDTH = 1.959964  # deviations either side that hold 95 % of a normal distribution


@dataclass(frozen=True)
class Belief:
    """Predictions for a batch of rounds, with their calibrated spread.

    Attributes:
        T: (B, M, N) predicted seconds (median of a log-normal).
        A: (B, M, N) predicted success probability.
        log_sd: (B, M, N) standard deviation of log time; 0 where the method has none.
        own_sd: (B, M, N) what of it a task's clusters do not share.
        a_sd: (B, M, N) standard deviation of the predicted probability; 0 where the method has none.
        gamma: (B,) least mean reliability asked for.
        allowed: (B, M, N) which pairs exist.
        zeta: (M, N + 1) factors of parallel execution or None.
        reliability_known: whether A says anything; where it does not, A is 1 and gamma 0.
        width: deviations of log time either side of its median that hold 95 %; more where few errors told them.
        backlog: (B, M) seconds for which a cluster is busy before it can start, or None.
    """

    T: Floats
    A: Floats
    log_sd: Floats
    own_sd: Floats
    a_sd: Floats
    gamma: Floats
    allowed: Bools
    zeta: Floats | None = None
    reliability_known: bool = True
    width: float = WIDTH
    backlog: Floats | None = None

    @staticmethod
    def of(
        T: Floats,
        A: Floats,
        *,
        log_sd: Floats,
        own_sd: Floats,
        a_sd: Floats,
        gamma: ArrayLike,
        allowed: Bools | None = None,
        zeta: Floats | None = None,
        reliability_known: bool = True,
        width: float = WIDTH,
    ) -> Belief:
        """The belief of B rounds; the only place that makes one from predictions.

        Args:
            T, A: (B, M, N) predicted seconds and success probabilities.
            log_sd, own_sd, a_sd: (M,) calibrated spread of each cluster, the same for every task, or (B, M, N).
            gamma: least mean reliability, one number or (B,).
            allowed: (B, M, N) which pairs exist; default all.
            zeta, reliability_known, width: as the attributes.
        """
        spreads = (spread[:, None] if spread.ndim == 1 else spread for spread in (log_sd, own_sd, a_sd))
        log_sd, own_sd, a_sd = (np.broadcast_to(spread, T.shape) for spread in spreads)
        levels = np.broadcast_to(np.asarray(gamma, np.float64), len(T)).copy()
        exists = np.ones(T.shape, bool) if allowed is None else allowed
        return Belief(T, A, log_sd, own_sd, a_sd, levels, exists, zeta, reliability_known, width)

    def on(self, clusters: list[int]) -> Belief:
        """The belief over some of the clusters, in the order of their indices."""
        arrays = {name: getattr(self, name)[:, clusters] for name in ("T", "A", "log_sd", "own_sd", "a_sd", "allowed")}
        busy = None if self.backlog is None else self.backlog[:, clusters]
        return replace(self, **arrays, zeta=None if self.zeta is None else self.zeta[clusters], backlog=busy)

    def in_rounds(self, rounds: Ints, *, gamma: ArrayLike, allowed: Bools) -> Belief:
        """The belief about one large round (B = 1) as a belief about R rounds drawn from its tasks.

        Args:
            rounds: (R, N) tasks of each round.
            gamma: least mean reliability, one number or (R,).
            allowed: (M, n) pairs that may be chosen, besides those of the belief.
        """
        names = ("T", "A", "log_sd", "own_sd", "a_sd")
        arrays = {name: getattr(self, name)[0][:, rounds].swapaxes(0, 1) for name in names}
        both = (self.allowed[0] & allowed)[:, rounds].swapaxes(0, 1)
        levels = np.broadcast_to(np.asarray(gamma, np.float64), len(rounds)).copy()
        busy = None if self.backlog is None else np.repeat(self.backlog, len(rounds), axis=0)
        return replace(self, **arrays, gamma=levels, allowed=both, backlog=busy)

    def problem(self, *, margin: float | Floats = 0.0) -> MatchingProblem:
        """The matching problem that takes the predictions for the truth, at gamma + margin."""
        gamma = np.clip(self.gamma + margin, 0, 1)
        T = np.where(self.allowed, self.T, 1.0)
        return MatchingProblem(T, self.A, gamma, self.allowed, self.zeta, backlog=self.backlog)


class Rule(Registered):
    """How a plan follows from predictions.

    A rule has at most one scalar parameter with candidate values (`candidates`). The choice among them is made on
    validation rounds by `tune`, so that no rule ever sees a test round before it is judged on it.
    """

    uses_spread: ClassVar[bool] = False  # whether plans depend on log_sd and a_sd, hence need a calibration

    def candidates(self) -> tuple[float, ...]:
        """Candidate values of the rule's parameter; a single one when there is nothing to tune."""
        return (0.0,)

    def charged(self, own_sd: Floats, log_sd: Floats) -> Floats:
        """The deviation of log time that plans depend on: what a task's clusters do not share, or the whole."""
        return log_sd

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
