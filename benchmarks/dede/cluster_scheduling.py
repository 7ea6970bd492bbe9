"""Cluster scheduling on the ADMM core: GPUs of many types shared among jobs, by max-min or by proportional fairness.

    max min_j u_j   or   max Σ_j log u_j,    u_j = Σ_k s_kj x_kj,   Σ_j g_j x_kj <= W_k,   Σ_k x_kj <= 1,   x >= 0

Job j runs a share x_kj of the time on g_j GPUs of type k; u_j is its throughput relative to an average type all the
time. A GPU type is a resource, a job is a demand. Sizes and distributions: DeDe's case study [Xu2025]_, generated.
Usage: python -m benchmarks.dede.cluster_scheduling [--quick] [--scale S] [--out DIR]

.. [Xu2025] Xu, Yu, Yan, DeDe, OSDI '25, arXiv:2412.11447.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.dede.study import Case, Part, Requirement, program, verdicts
from mfcp.matching.decomposition.alternating_directions import State
from mfcp.simulator.policies.sharing.admm import FairShares, MaxMinBlocks

TYPES, JOBS = 456, 2560  # published: 456 types, 2,588 kinds of job


@dataclass(frozen=True)
class Jobs:
    """W (M,) GPUs of each type, g (N,) GPUs a job runs on, s (M, N) normalised speed, 0 where it may not run."""

    W: np.ndarray
    g: np.ndarray
    s: np.ndarray
    peak: np.ndarray


def new_jobs(peak: np.ndarray, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """GPUs asked for, powers of two, and speeds; a third of the jobs is restricted to some types."""
    g = 2.0 ** rng.integers(0, 5, count)
    speed = peak[:, None] ** rng.uniform(0.3, 1.0, count) * rng.lognormal(0, 0.2, (len(peak), count))
    open_to = rng.random((len(peak), count)) < np.where(rng.random(count) < 0.33, rng.uniform(0.1, 0.5, count), 1.0)
    open_to[rng.integers(len(peak), size=count), np.arange(count)] = True
    speed *= open_to
    return g, speed * (open_to.sum(axis=0) / speed.sum(axis=0))


def draw(seed: int, scale: float) -> Jobs:
    rng = np.random.default_rng([seed, 31])
    M, N = max(round(TYPES * scale), 3), max(round(JOBS * scale), 8)
    peak = rng.lognormal(0, 0.6, M)
    g, s = new_jobs(peak, N, rng)
    return Jobs(8.0 * rng.integers(1, 9, M), g, s, peak)


def churn(jobs: Jobs, share: float, rng: np.random.Generator) -> tuple[Jobs, np.ndarray]:
    """The next round: a share of the jobs has ended and as many have come; and which columns those are."""
    which = rng.choice(len(jobs.g), max(1, round(share * len(jobs.g))), replace=False)
    g, s = jobs.g.copy(), jobs.s.copy()
    g[which], s[:, which] = new_jobs(jobs.peak, len(which), rng)
    return replace(jobs, g=g, s=s), which


def split(jobs: Jobs, parts: int, rng: np.random.Generator) -> list[Part]:
    """POP's parts: random jobs, every type's GPUs divided."""
    groups = np.array_split(rng.permutation(len(jobs.g)), parts)
    return [(replace(jobs, W=jobs.W / parts, g=jobs.g[own], s=jobs.s[:, own]), own) for own in groups]


class Fairness(FairShares):
    """What both objectives need besides the steps."""

    def __init__(self, jobs: Jobs) -> None:
        super().__init__(jobs.s, jobs.g, jobs.W)

    def carried(self, state: State, renewed: np.ndarray) -> State:
        """A state for the next round: new jobs start cold."""
        kept = np.setdiff1d(np.arange(state.z.shape[1]), renewed)
        z, v = self.going_on(state, kept, kept)
        return replace(state, z=z, v=v)


class MaxMin(Fairness, MaxMinBlocks):
    """The product's, of these jobs."""

    def quality(self, point: np.ndarray) -> float:
        return self.level(self.repaired(point))


class Proportional(Fairness):
    """Each job trades shares for the logarithm of its throughput; with -log u the step is one root of a quadratic."""

    start_rho = 300.0

    def resource_step(self, point: np.ndarray, rho: float) -> np.ndarray:
        return self.shares(point)

    def demand_step(self, point: np.ndarray, rho: float) -> np.ndarray:
        p = np.where(self.open, point, 0.0)
        free = self._gain(p, self.speed, rho)
        over = free.sum(axis=0) > 1.0
        # a job that runs all the time moves within Σ_k x_kj = 1: the same step on what is left of p and s there
        within = p - self.open * ((p.sum(axis=0) - 1.0) / self.count)
        along = self.speed - self.open * (self.speed.sum(axis=0) / self.count)
        return np.where(over, self._gain(within, along, rho), free)

    def _gain(self, p: np.ndarray, direction: np.ndarray, rho: float) -> np.ndarray:
        """p + direction / (ρ u) with u = s·(that): the positive root of u² - (s·p) u - s·direction / ρ = 0."""
        now, slope = self.utilities(p), (self.speed * direction).sum(axis=0) / rho
        u = 0.5 * (now + np.sqrt(now**2 + 4.0 * slope))
        return p + direction / (rho * np.maximum(u, 1e-12))

    def quality(self, point: np.ndarray) -> float:
        """Geometric mean of the utilities; its logarithm is the objective over N."""
        return self.unit * float(np.exp(np.log(np.maximum(self.utilities(self.repaired(point)), 1e-12)).mean()))


def exact_max_min(jobs: Jobs) -> np.ndarray:
    """(M, N) by HiGHS; only pairs that may run are variables."""
    from scipy import sparse
    from scipy.optimize import linprog

    k, j = np.nonzero(jobs.s)
    (M, N), P = jobs.s.shape, len(k)
    pairs, one = np.arange(P), np.ones(P)
    types = sparse.csr_matrix((jobs.g[j], (k, pairs)), (M, P + 1))
    asked = sparse.csr_matrix((one, (j, pairs)), (N, P + 1))
    below = sparse.hstack([sparse.csr_matrix((-jobs.s[k, j], (j, pairs)), (N, P)), np.ones((N, 1))])
    result = linprog(
        np.append(np.zeros(P), -1.0),
        A_ub=sparse.vstack([types, asked, below]).tocsr(),
        b_ub=np.concatenate([jobs.W, np.ones(N), np.zeros(N)]),
        method="highs",
    )
    x = np.zeros((M, N))
    x[k, j] = result.x[:-1]
    return x


def exact_proportional(jobs: Jobs) -> np.ndarray:
    """(M, N) by Clarabel through cvxpy."""
    import cvxpy

    x = cvxpy.Variable(jobs.s.shape, nonneg=True)
    limits = [x @ jobs.g <= jobs.W, cvxpy.sum(x, axis=0) <= 1]
    aim = cvxpy.sum(cvxpy.log(cvxpy.sum(cvxpy.multiply(jobs.s, x), axis=0)))
    cvxpy.Problem(cvxpy.Maximize(aim), limits).solve(solver="CLARABEL")
    return np.asarray(x.value)


def filled(jobs: Jobs, quanta: int = 20) -> np.ndarray:
    """(M, N) shares by a greedy rule: whoever has least gets a quantum of time on the fastest type that has room."""
    N, free = len(jobs.g), jobs.W.astype(float).copy()
    x, part = np.zeros(jobs.s.shape), 1.0 / quanta
    waiting = [(0.0, j) for j in range(N)]
    while waiting:
        utility, j = heapq.heappop(waiting)
        room = (free >= jobs.g[j] * part) & (jobs.s[:, j] > 0)
        if not room.any():
            continue
        k = int(np.where(room, jobs.s[:, j], -1.0).argmax())
        x[k, j] += part
        free[k] -= jobs.g[j] * part
        if x[:, j].sum() < 1.0 - part / 2:
            heapq.heappush(waiting, (utility + part * float(jobs.s[k, j]), j))
    return x


def merge(points: list[np.ndarray], parts: list[Part], blocks: Fairness) -> np.ndarray:
    """The parts' allocations side by side."""
    x = np.zeros(blocks.speed.shape)
    for point, (_, own) in zip(points, parts, strict=True):
        x[:, own] = point
    return x


CASES = [
    Case("cluster scheduling, max-min fairness", draw, churn, split, exact_max_min, MaxMin, merge),
    Case("cluster scheduling, proportional fairness", draw, churn, split, exact_proportional, Proportional, merge),
]


def main(argv: list[str] | None = None) -> list[Requirement]:
    return program(__doc__ or "", CASES, argv, scale=1 / 8, rounds=3, quick_scale=1 / 32)


if __name__ == "__main__":
    verdicts(main())
