"""The fractional matching problem as two blocks of ADMM, with a certified bound from its prices.

The problem of `planning.solve` with x in [0, 1] and what a platform adds to it that is linear:

    min w θ + Σ_ij c_ij x_ij
    T_i·x_i + backlog_i <= θ,  use_ri·x_i <= limit_ri,  Σ_i x_ij = 1,  Σ_ij a_ij x_ij >= gamma N

The reliability row would couple everything, so it is split: q_i is cluster i's share of it. Both sides have copies of
x, of the level θ and of q:

    resource i: (x_i, τ_i, q_i)    T_i·x_i + backlog_i <= τ_i,  use_ri·x_i <= limit_ri,  q_i = a_i·x_i
    demands:    (z, θ, q')         z_j in the simplex, one θ for all clusters, Σ_i q'_i >= gamma N

Everything is scaled so that a row of times, of reliabilities and of each use has norm 1 on average; and from a_ij a
task's mean over clusters is subtracted first, which only moves gamma, since every task is placed exactly once. Without
that the constant part, which no plan can change, drowns the differences that plans are made of.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfcp.arrays import Bools, Floats
from mfcp.matching.bounds import least_end
from mfcp.matching.decomposition.alternating_directions import State, nonnegative_quadratic, project_simplex
from mfcp.matching.large.candidates import Row
from mfcp.matching.problem import MatchingProblem

START_RHO = 10.0  # over sqrt(M N); a tenth of it is faster from a cold start and slower from a warm one


@dataclass(frozen=True)
class Multipliers:
    """Prices of the scaled problem: (1 + R, M) of each cluster's rows, time first, and of reliability; all >= 0."""

    rows: Floats
    reliability: float


class RelaxedMatching:
    """Blocks of one round (M, N); a point is (N + 2, M): x transposed, then τ, then q."""

    def __init__(self, problem: MatchingProblem, rows: list[Row]) -> None:
        """The scaled arrays.

        Args:
            problem: one round, without parallel execution.
            rows: its constraints beyond time and reliability.
        """
        N, M = problem.tasks, problem.clusters
        self.rows = rows
        self.allowed: Bools = problem.allowed.T
        self.count = self.allowed.sum(axis=1)
        times = np.where(self.allowed, problem.T.T, 0.0)
        uses = [times if row.use is None else np.where(self.allowed, row.use.T, 0.0) for row in rows]
        uses = [use if row.active is None else use * row.active[:, None] for use, row in zip(uses, rows, strict=True)]
        scales = [_row_norm(use) for use in (times, *uses)]
        self.unit = scales[0]  # of the objective, seconds
        self.use = np.stack([use / scale for use, scale in zip((times, *uses), scales, strict=True)])
        self.limit = np.stack([np.zeros(M), *(row.limit / by for row, by in zip(rows, scales[1:], strict=True))])
        self.backlog = problem.backlog
        self.raise_floor(float(least_end(problem)))
        self.guess = np.zeros_like(self.limit)  # of the next projection's multipliers
        self.weight = problem.objective.makespan
        linear = problem.linear()
        self.linear = None if linear is None else linear.T / self.unit
        reliabilities = np.where(self.allowed, problem.A.T, 0.0)
        mean = reliabilities.sum(axis=1) / self.count
        centred = np.where(self.allowed, reliabilities - mean[:, None], 0.0)
        self.reliability_unit = _row_norm(centred)
        self.a = centred / self.reliability_unit
        self.need = (float(problem.gamma) * N - float(mean.sum())) / self.reliability_unit
        # Eliminating q_i = a_i·x_i leaves the metric H = I + a aᵀ in a cluster's step; its inverse is I - a aᵀ / e.
        self.e = 1.0 + (self.a**2).sum(axis=0)
        self.use_a = np.einsum("knm,nm->km", self.use, self.a)
        self.gram = np.einsum("knm,lnm->klm", self.use, self.use) - self.use_a[:, None] * self.use_a / self.e
        self.gram[0, 0] += 1.0  # τ_i has a copy of its own

    def cold(self) -> State:
        """Every task in equal shares on all clusters that it may use."""
        N, M = self.allowed.shape
        z = np.empty((N + 2, M))
        z[:-2] = self.allowed / self.count[:, None]
        z[-2] = (np.einsum("nm,nm->m", self.use[0], z[:-2]) - self.limit[0]).mean()
        z[-1] = self.need / M
        return State(z, np.zeros_like(z), START_RHO / float(np.sqrt(M * N)))

    def raise_floor(self, floor: float) -> float:
        """Charge min(backlog, floor) on every cluster, where no plan ends before `floor` seconds.

        A cluster without tasks does not wait for its backlog, which is not linear; but such a plan, too, ends after
        the charge. So a better bound of the makespan makes the relaxation better.

        Returns:
            By how much the largest charge rose, relative to the floor.
        """
        if self.backlog is None:
            return 0.0
        before, self.limit[0] = self.limit[0].copy(), -np.minimum(self.backlog, floor) / self.unit
        return float((before - self.limit[0]).max()) * self.unit / floor

    def resource_step(self, point: Floats, rho: float) -> Floats:
        """Each cluster's (x_i, τ_i, q_i): projection on its rows and on q_i = a_i·x_i."""
        x, multipliers = self._project(point)
        result = np.empty_like(point)
        result[:-2] = x
        result[-2] = point[-2] + multipliers[0]
        result[-1] = np.einsum("nm,nm->m", self.a, x)
        return result

    def demand_step(self, point: Floats, rho: float) -> Floats:
        """Each task's simplex, the one level θ and the shares q' that reach gamma together."""
        M = self.allowed.shape[1]
        result = np.empty_like(point)
        wanted = point[:-2] if self.linear is None else point[:-2] - self.linear / rho
        result[:-2] = project_simplex(np.where(self.allowed, wanted, -np.inf))
        result[-2] = point[-2].mean() - self.weight / (rho * M)
        result[-1] = point[-1] + max(0.0, self.need - float(point[-1].sum())) / M
        return result

    def multipliers(self, state: State) -> Multipliers:
        """The multipliers of the last steps; prices of time are scaled to sum to the makespan's weight."""
        rows = state.rho * self._project(state.z - state.v)[1]
        total = float(rows[0].sum())
        rows[0] = rows[0] * (self.weight / total) if total > 0 else self.weight / len(rows[0])
        return Multipliers(rows, max(0.0, -state.rho * float(state.v[-1].mean())))

    def bound(self, prices: Multipliers) -> float:
        """The dual function: a lower bound of the objective for any multipliers >= 0 whose times' sum to the weight.

        LB = Σ_j min_i (Σ_r μ_ri use_rij + c_ij - η a_ij) + η gamma N - Σ_ri μ_ri limit_ri
        """
        least = np.where(self.allowed, self._cost(prices), np.inf).min(axis=1).sum()
        charged = (prices.rows * np.where(prices.rows > 0, self.limit, 0.0)).sum()  # limits may be inf
        return self.unit * float(least + prices.reliability * self.need - charged)

    def charges(self, prices: Multipliers) -> Floats:
        """(M, N) what a task costs on a cluster besides its reliability, in units of the objective."""
        return np.ascontiguousarray((self._cost(prices) + prices.reliability * self.a).T) * self.unit

    def shares(self, state: State) -> Floats:
        """(M, N) fractional plan: each task's shares sum to 1."""
        return np.ascontiguousarray(state.z[:-2].T)

    def value(self, state: State) -> float:
        """Objective of the shares after mixing in each task's most reliable cluster until gamma is met."""
        x = state.z[:-2]
        reached = float(np.einsum("nm,nm->", self.a, x))
        if reached < self.need:
            best = np.where(self.allowed, self.a, -np.inf).argmax(axis=1)
            most = np.eye(x.shape[1])[best]
            reachable = float(np.einsum("nm,nm->", self.a, most))
            x = x + (most - x) * ((self.need - reached) / max(reachable - reached, 1e-300))
        ends = np.einsum("nm,nm->m", self.use[0], x) - self.limit[0]
        linear = 0.0 if self.linear is None else float(np.einsum("nm,nm->", self.linear, x))
        return self.unit * (self.weight * float(ends.max()) + linear)

    def _cost(self, prices: Multipliers) -> Floats:
        """(N, M) reduced cost of every entry."""
        cost: Floats = np.einsum("knm,km->nm", self.use, prices.rows) - prices.reliability * self.a
        return cost if self.linear is None else cost + self.linear

    def _project(self, point: Floats) -> tuple[Floats, Floats]:
        """x (N, M) and the multipliers (1 + R, M) of every cluster's rows."""
        p, level, share = point[:-2], point[-2], point[-1]
        lift = (share - np.einsum("nm,nm->m", self.a, p)) / self.e
        # Rows at x0 = p + a lift, where no row would hold back; a row's excess is what its multiplier must take away.
        excess = np.einsum("knm,nm->km", self.use, p) + self.use_a * lift - self.limit
        excess[0] -= level
        multipliers = self.guess = nonnegative_quadratic(self.gram, excess, self.guess)
        x = p + self.a * (lift + (multipliers * self.use_a).sum(axis=0) / self.e)
        for use, multiplier in zip(self.use, multipliers, strict=True):
            x -= use * multiplier
        return x, multipliers


def _row_norm(rows: Floats) -> float:
    """Mean norm of the rows of an (N, M) array (rows of clusters are its columns); 1 where all are 0."""
    return float(np.sqrt((rows**2).sum(axis=0)).mean()) or 1.0
