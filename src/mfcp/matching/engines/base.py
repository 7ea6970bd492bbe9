"""What every engine is: settings that turn a batch of rounds into plans and certified bounds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from mfcp.arrays import Floats, Ints
from mfcp.errors import SettingsError
from mfcp.matching.problem import MatchingProblem
from mfcp.registry import Registered


@dataclass(frozen=True)
class Found:
    """What an engine found for a batch of B rounds; `solve` derives status, objective and gap from it.

    Attributes:
        assignment: (B, N) cluster of each task; a round without a plan is all -1.
        bound: (B,) certified lower bound of the objective (with a price: of objective + price · shortfall); -inf
            where it has none, inf where it proved that no plan exists.
        state: what the engine can start from next time, one per round, or nothing.
        stats: figures about the whole batch, for reports.
    """

    assignment: Ints
    bound: Floats
    state: list[Any] = field(default_factory=list)
    stats: dict[str, Any] = field(default_factory=dict)


class Engine(Registered):
    """A way to solve Eq. (2); its fields are its settings.

    A member overrides `match_round`, or `match` where a batch is faster than its rounds one by one. Its class variables
    say what it can take; anything else is refused.
    """

    takes_price: ClassVar[bool] = False  # a price of shortfall instead of the constraint
    takes_zeta: ClassVar[bool] = False  # parallel execution
    breaks_ties: ClassVar[bool] = False  # by `ties.preferred` among all plans; else `solve` does by moves and swaps
    takes_extended: ClassVar[bool] = False  # backlog, capacities, deadlines, other objectives than the makespan

    def resolve(self, problem: MatchingProblem, price: Floats | None, time_limit: float) -> Engine:
        """The engine that does the work: itself, unless it only chooses one by problem and seconds per round."""
        return self

    def match(
        self, problem: MatchingProblem, *, price: Floats | None, time_limit: float, start: list[Any] | None
    ) -> Found:
        """Plans for a batch (B, M, N).

        Args:
            problem: rounds that passed `refuse`.
            price: (B,) price of missing reliability, or None for the constraint.
            time_limit: seconds per round.
            start: the `state` of an earlier, similar batch of the same size, or None.
        """
        rounds = [
            self.match_round(
                problem.take(b),
                price=None if price is None else float(price[b]),
                time_limit=time_limit,
                start=start[b] if start else None,
            )
            for b in range(len(problem.T))
        ]
        stats = {key: np.array([found.stats[key] for found in rounds]) for key in rounds[0].stats}
        return Found(
            np.concatenate([found.assignment for found in rounds]),
            np.concatenate([found.bound for found in rounds]),
            [state for found in rounds for state in found.state],
            stats,
        )

    def match_round(self, problem: MatchingProblem, *, price: float | None, time_limit: float, start: Any) -> Found:
        """A `Found` with B = 1 for one round (M, N); arguments as in `match`."""
        raise NotImplementedError

    def refuse(self, problem: MatchingProblem, price: Floats | None) -> None:
        """Raise where the problem has what this engine cannot do.

        Raises:
            SettingsError: names it and what to use instead.
        """
        for asked, able, what in (
            (price is not None, self.takes_price, "a price of shortfall"),
            (problem.zeta is not None, self.takes_zeta, "parallel execution"),
            (problem.extended, self.takes_extended, "backlog, capacities, deadlines or another objective"),
        ):
            if asked and not able:
                raise SettingsError(f"engine '{self.name}' cannot take {what}; use engine 'auto'")
