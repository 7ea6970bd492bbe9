"""A few candidate clusters per task, and every constraint beyond time and reliability as rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mfcp.arrays import Bools, Floats
from mfcp.matching.problem import MatchingProblem

DEADLINE_LEVELS = 8  # rows per cluster that deadlines are put into at most; each costs as much as a capacity


@dataclass(frozen=True)
class Row:
    """One constraint of every cluster: Σ_j use_ij x_ij <= limit_i, the sum over the active tasks.

    Attributes:
        name: of the capacity, or "deadline".
        use: (M, N), or None for the times T.
        active: (N,) the tasks that count, or None for all.
        limit: (M,).
    """

    name: str
    use: Floats | None
    active: Bools | None
    limit: Floats


@dataclass(frozen=True)
class Candidates:
    """(N, K) clusters per task, best first at the prices that chose them; all entries are of the problem itself.

    Attributes:
        cluster: (N, K) index; -1 where a task has fewer, then time is inf, reliability 0, share 0.
        time: (N, K) seconds.
        reliability: (N, K).
        linear: (N, K) what the choice adds to the objective besides the makespan, or None.
        use: (R, N, K) of each row.
        share: (N, K) fractional plan at the prices; each task's shares sum to 1.
    """

    cluster: NDArray[np.int32]
    time: Floats
    reliability: Floats
    linear: Floats | None
    use: Floats
    share: Floats


@dataclass(frozen=True)
class Prices:
    """Multipliers of one round's constraints, in units of the objective; the engine's warm start.

    Attributes:
        seconds: (M,) of a second on each cluster; they sum to the makespan's weight.
        reliability: of a unit of Σ_j a, >= 0.
        rows: (R, M) of a unit of each row's use, >= 0.
    """

    seconds: Floats
    reliability: float
    rows: Floats


@dataclass(frozen=True)
class Pricing:
    """Prices, what they certify and what they propose.

    Attributes:
        prices: the best found; where to start from on a similar round.
        around: the same with long tasks fixed: what the candidates are chosen by, per second of T.
        bound: certified lower bound of the objective; -inf where it was lost, inf where no plan can exist.
        candidates: at those prices.
        stats: counts and seconds, for reports.
        others: what other places of long tasks propose, in small rounds; each may lead to the better plan.
    """

    prices: Prices
    around: Prices
    bound: float
    candidates: Candidates
    stats: dict[str, float]
    others: tuple[Pricing, ...] = ()


def rows_of(problem: MatchingProblem, *, levels: int = DEADLINE_LEVELS) -> list[Row]:
    """Capacities and deadlines of one round (M, N); deadlines beyond `levels` are rounded up to the next kept one.

    Rounding up leaves constraints out of the rows, never adds one, so bounds stay true; plans are held to every
    deadline by whoever makes them.
    """
    rows = [Row(c.name, c.use, None, c.limit) for c in problem.capacities]
    if problem.deadline is None:
        return rows
    due = np.unique(problem.deadline[np.isfinite(problem.deadline)])
    if len(due) > levels:
        due = due[np.linspace(0, len(due) - 1, levels + 1).round().astype(int)[1:]]
    backlog = np.zeros(problem.clusters) if problem.backlog is None else problem.backlog
    return rows + [Row("deadline", None, problem.deadline <= at, np.maximum(at - backlog, 0.0)) for at in due]


def gather(problem: MatchingProblem, rows: list[Row], cluster: NDArray[np.int32]) -> Candidates:
    """The entries of one round (M, N) at (N, K) clusters; shares equal to 1 at the first candidate."""
    missing = cluster < 0
    at = (np.maximum(cluster, 0).T, np.arange(problem.tasks))

    def pick(values: Floats, fill: float) -> Floats:
        return np.where(missing, fill, np.asarray(values[at].T, np.float64))

    linear = None
    if problem.objective.total_time or problem.objective.cost:
        linear = problem.objective.total_time * pick(problem.T, 0.0)
        if problem.cost is not None:
            linear += problem.objective.cost * pick(problem.cost, 0.0)
    use = np.zeros((len(rows), *cluster.shape))
    for r, row in enumerate(rows):
        use[r] = pick(problem.T if row.use is None else row.use, 0.0)
        if row.active is not None:
            use[r] *= row.active[:, None]
    share = np.zeros(cluster.shape)
    share[:, 0] = 1.0
    return Candidates(cluster, pick(problem.T, np.inf), pick(problem.A, 0.0), linear, use, share)
