"""What a plan's cost does when one task moves, and what is scarce in its round.

The cost is the one that rounds are decided by, E[makespan] / unit + price · E[shortfall] under the beliefs
(`mfcp.matching.expected`); without spread it is the penalised cost of the predictions. Every move is evaluated with
that cost. Prices are of the relaxation, in which tasks may be divided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mfcp.arrays import Floats, Ints
from mfcp.errors import SolverError
from mfcp.matching.expected import Moments, kernel_inputs
from mfcp.matching.problem import MatchingProblem

_HALVINGS = 18  # of [0, 1]: factors to 4e-6
_NOTHING = 1e-9  # relative change of the cost that is rounding


@dataclass(frozen=True)
class RoundPrices:
    """What is scarce in a round: derivatives of the least cost of the relaxed round, in seconds.

    Attributes:
        value: least makespan + price · shortfall of the relaxation, seconds: no plan of the means costs less.
        cluster: cluster → seconds that one more second of load on it adds to `value`. At least 0; they sum to 1.
        reliability: seconds that `value` rises per unit of gamma. At least 0, at most the price of shortfall.
    """

    value: float
    cluster: dict[str, float]
    reliability: float


@dataclass(frozen=True)
class Moves:
    """What moving each of n tasks to each cluster, alone, does to the round: (M, n), nan where it cannot go.

    Attributes:
        makespan: seconds of expected makespan that it adds.
        reliability: what it adds to the mean reliability.
        cost: what it adds to the cost, in units; negative where it pays.
        time_factor: it pays once the time there is below this share of the predicted one; 1 where it pays as it is,
            nan where no time would do.
        reliability_needed: it pays once the probability of success there is above this; nan where none would do.
    """

    makespan: Floats
    reliability: Floats
    cost: Floats
    time_factor: Floats
    reliability_needed: Floats


def relaxed_prices(problem: MatchingProblem, *, price: float, cluster_id: Sequence[str]) -> RoundPrices:
    """Multipliers of min tau + price · s with b_i + Σ_j t_ij x_ij <= tau and Σ a x / N + s >= gamma, x any shares.

    HiGHS' marginals are derivatives of the least value in the right-hand sides, which are -b_i and -gamma as it is
    written there: prices are their negatives. At a degenerate optimum they are one of several. Under parallel
    execution each cluster's time is taken at its lowest factor, as in every bound.

    Args:
        problem: one round, B = 1; its backlog counts on every cluster here.
        price: seconds per unit of missing mean reliability.
        cluster_id: M names.

    Raises:
        SolverError: HiGHS gave up.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    M, N = problem.T.shape[1:]
    i, j = np.nonzero(problem.allowed[0])
    times = problem.T[0, i, j].astype(np.float64)
    if problem.zeta is not None:
        times *= problem.zeta[i, 1:].min(axis=1)
    pairs = np.arange(len(i))
    scale = float(np.median(times)) * max(1.0, N / M)  # numbers about 1, for the solver's tolerances
    # Columns: the pairs, tau, s. Rows: the clusters, reliability.
    rows = np.concatenate([i, np.full(len(i), M), np.arange(M + 1)])
    columns = np.concatenate([pairs, pairs, np.full(M, len(i)), [len(i) + 1]])
    entries = np.concatenate([times / scale, -problem.A[0, i, j] / N, np.full(M + 1, -1.0)])
    backlog = np.zeros(M) if problem.backlog is None else problem.backlog[0]
    result = linprog(
        np.concatenate([np.zeros(len(i)), [1.0, price / scale]]),
        A_ub=coo_array((entries, (rows, columns)), shape=(M + 1, len(i) + 2)).tocsr(),
        b_ub=np.append(-backlog / scale, -problem.gamma[0]),
        A_eq=coo_array((np.ones(len(i)), (j, pairs)), shape=(N, len(i) + 2)).tocsr(),
        b_eq=np.ones(N),
        method="highs",
    )
    if result.status != 0:
        raise SolverError(f"prices of a round of {N} tasks × {M} clusters: {result.message}")
    marginal = np.maximum(-result.ineqlin.marginals, 0.0)
    by_name = {name: float(value) for name, value in zip(cluster_id, marginal[:M], strict=True)}
    return RoundPrices(float(result.fun * scale), by_name, float(marginal[M] * scale))


def evaluate_moves(moments: Moments, plan: Ints, tasks: Ints, *, price: float, unit: float) -> Moves:
    """Evaluate every move of some tasks, and find where it would begin to pay.

    Args:
        moments: beliefs about one round, B = 1.
        plan: (N,) cluster of each task.
        tasks: (n,) positions of those to move. Work is M² n.
        price: of a unit of missing reliability, in units.
        unit: seconds.
    """
    from mfcp.matching.kernels.expected_cost import move_tasks

    *beliefs, zeta, backlog = kernel_inputs(moments)
    tasks, value = np.ascontiguousarray(tasks, np.int64), np.empty((4, moments.time.shape[1], len(tasks)))
    weights = (float(moments.gamma[0]), unit, price)
    plan = np.ascontiguousarray(plan, np.int64)
    move_tasks(*(own[0] for own in beliefs), zeta, backlog[0], *weights, plan, tasks, _HALVINGS, _NOTHING, value)
    spans, costs, saved, needed = value
    left, column = plan[tasks], np.arange(len(tasks))
    success = np.where(moments.allowed[0], moments.reliability[0], np.nan)[:, tasks]
    changes = (success - success[left, column]) / len(plan)
    return Moves(spans - spans[left, column], changes, costs - costs[left, column], 1.0 - saved, needed)
