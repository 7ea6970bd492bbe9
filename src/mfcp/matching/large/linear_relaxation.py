"""The linear relaxation of one round, of a sample of its tasks, or of its kinds of tasks; and prices to start from."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mfcp.arrays import Floats, Ints, read_only
from mfcp.matching.large.candidates import Prices, Row, rows_of
from mfcp.matching.problem import SLACK, MatchingProblem

TINY = 1e-300


@dataclass(frozen=True)
class Relaxation:
    """The linear relaxation of one round, or of a weighted part of its tasks.

    Attributes:
        T, A: (M, n).
        mass: (n,) how many tasks each stands for.
        speed: (M,) factor on the seconds in the makespan rows.
        hourly: (M,) objective per second of T, besides the makespan.
        money: (M, n) objective of the choice, or None.
        rows: each with its use (M, n), 0 where it does not count, and finite limits.
        cap: (M,) a task with more seconds of T may not run there.
        weight: of the makespan.
        need: Σ a of all tasks, at least.
        penalty: most that a unit of missing Σ a costs; inf where it may not be missing.
        unit: an objective that cannot be told from 0, by the size of what it is made of.
    """

    T: Floats
    A: Floats
    mass: Floats
    speed: Floats
    hourly: Floats
    money: Floats | None
    rows: list[Row]
    cap: Floats
    weight: float
    need: float
    penalty: float
    unit: float

    def __post_init__(self) -> None:
        for name in ("T", "A"):
            if isinstance(table := getattr(self, name), np.ndarray):  # else where a worker finds it
                object.__setattr__(self, name, read_only(table))

    @property
    def width(self) -> int:
        """B, rows per cluster."""
        return len(self.rows) + (self.weight > 0)

    def limits(self) -> tuple[Floats, Floats]:
        """(D,) right-hand sides, and (D,) 1 on the makespan's rows."""
        M, B = len(self.T), self.width
        limit, edge = np.zeros((M, B)), np.zeros((M, B))
        if self.weight > 0:
            edge[:, 0] = 1.0
        for r, row in enumerate(self.rows, B - len(self.rows)):
            limit[:, r] = row.limit
        return np.append(limit, -self.need), np.append(edge, 0.0)

    def vector(self, prices: Prices) -> Floats:
        """(D,) of the prices."""
        first = [prices.seconds] if self.weight > 0 else []
        stacked = np.stack([*first, *prices.rows], axis=1) if self.width else np.empty((len(self.T), 0))
        return np.append(stacked, prices.reliability)

    def named(self, vector: Floats) -> Prices:
        """The prices of a (D,) vector."""
        columns = vector[:-1].reshape(len(self.T), self.width)
        seconds = columns[:, 0].copy() if self.weight > 0 else np.zeros(len(self.T))
        return Prices(seconds, float(vector[-1]), columns[:, self.width - len(self.rows) :].T.copy())

    def per_second(self, prices: Prices) -> Floats:
        """(M,) price of a second of T on each cluster, all rows apart."""
        result: Floats = prices.seconds * self.speed + self.hourly
        return result

    def extra(self, prices: Prices, tasks: slice) -> Floats:
        """(M, n) what rows and money add to the reduced costs of some tasks; (0, 0) for nothing."""
        if not self.rows and self.money is None:
            return np.empty((0, 0))
        total = np.zeros((len(self.T), len(self.mass[tasks])))
        if self.money is not None:
            total += self.money[:, tasks]
        for use, price in zip(self.uses, prices.rows, strict=True):
            total += price[:, None] * use[:, tasks]
        return total

    def coefficients(self, cluster: NDArray[np.int32], seconds: Floats, tasks: slice) -> tuple[Floats, Floats]:
        """(n, W, B) on the rows of each candidate's cluster, and (n, W) costs; 0 where a candidate is missing."""
        at = np.maximum(cluster, 0)
        seconds = np.where(cluster < 0, 0.0, seconds)
        b = np.empty((*cluster.shape, self.width))
        if self.weight > 0:
            b[..., 0] = self.speed[at] * seconds
        where = (at, np.arange(len(self.mass))[tasks][:, None])
        for r, use in enumerate(self.uses, self.width - len(self.rows)):
            b[..., r] = np.where(cluster < 0, 0.0, use[where])
        cost = self.hourly[at] * seconds
        if self.money is not None:
            cost += np.where(cluster < 0, 0.0, self.money[where])
        return b, cost

    def take(self, tasks: Ints | slice, mass: Floats) -> Relaxation:
        """The relaxation with some tasks only, each standing for `mass` of them."""
        rows = [Row(row.name, use[:, tasks], None, row.limit) for row, use in zip(self.rows, self.uses, strict=True)]
        money = None if self.money is None else self.money[:, tasks]
        return replace(self, T=self.T[:, tasks], A=self.A[:, tasks], mass=mass, money=money, rows=rows)

    @property
    def uses(self) -> list[Floats]:
        """(M, n) of each row."""
        return [row.use for row in self.rows if row.use is not None]


def relax(problem: MatchingProblem, factor: Floats, penalty: float | None, value: float) -> Relaxation:
    """The linear relaxation of one round, of plans with an objective below `value`.

    Args:
        problem: one round (M, N).
        factor: (M,) on all seconds, for parallel execution.
        penalty: of missing reliability, or None for the constraint.
        value: may be inf.
    """
    M, N = problem.clusters, problem.tasks
    weights = problem.objective
    wait = np.zeros(M) if problem.backlog is None else problem.backlog
    span = value / weights.makespan * (1.0 + 1e-12) if weights.makespan else np.inf
    cap, speed = np.full(M, np.finfo(np.float64).max), factor
    if np.isfinite(span):
        usable = wait < span
        cap = np.where(usable, (span - wait) / factor, -1.0)
        speed = factor / np.where(usable, 1.0 - wait / span, 1.0)
    rows, T = [], problem.T
    for row in rows_of(problem):
        counts = problem.allowed if row.active is None else problem.allowed & row.active
        use = np.where(counts, factor[:, None] * problem.T if row.use is None else row.use, 0.0)
        limit = np.minimum(row.limit, use.sum(axis=1) + 1.0)  # finite, and never tighter
        limit = limit + SLACK * (1.0 + limit + wait)  # what `violations` forgives
        T = np.where(use > limit[:, None], np.array(np.inf, T.dtype), T)
        rows.append(Row(row.name, use, None, limit))
    need = max(float(problem.gamma) - (SLACK if penalty is None else 0.0), 0.0) * N
    money = None
    if weights.cost and problem.cost is not None:
        money = weights.cost * np.where(problem.allowed, problem.cost, 0.0)
    hourly, probe = weights.total_time * factor, probe_tasks(N)
    sizes = np.where(np.isfinite(problem.T[:, probe]), problem.T[:, probe], 0.0)
    sizes = (weights.makespan * factor / M + hourly)[:, None] * sizes
    if money is not None:
        sizes = sizes + np.abs(money[:, probe])
    return Relaxation(
        T, problem.A, np.ones(N), speed, hourly, money, rows, cap,
        weights.makespan, need, np.inf if penalty is None else penalty, 1e-9 * N * (float(sizes.max()) or 1.0),
    )  # fmt: skip


def probe_tasks(tasks: int) -> Ints:
    """(n,) a few hundred of the tasks, evenly spread."""
    return np.unique(np.linspace(0, tasks - 1, 256).astype(np.int64))


def guess(data: Relaxation) -> Floats:
    """(D,) prices in proportion to the clusters' speeds, and as high for reliability as a few hundred tasks need."""
    n = data.mass.sum()
    probe = probe_tasks(len(data.mass))
    mass = data.mass[probe] / data.mass[probe].sum()
    with np.errstate(invalid="ignore", divide="ignore"):
        T, A = data.T[:, probe].astype(np.float64), data.A[:, probe].astype(np.float64)
        T[data.cap[:, None] < T] = np.inf
        log = np.where(np.isfinite(T), np.log(np.maximum(T, data.unit / n)), 0.0)
        typical = np.exp(log.sum(axis=1) / np.maximum(np.isfinite(T).sum(axis=1), 1))
        p = 1.0 / (typical * data.speed)
        p *= (data.weight or 1.0) / p.sum()
        cost = (p * data.speed if data.weight > 0 else 0.0) + data.hourly
        cost = np.where(np.isfinite(T), cost[:, None] * T, np.inf)
    if data.money is not None:
        cost += data.money[:, probe]
    cheapest = cost.min(axis=0)
    size = float(mass @ np.where(np.isfinite(cheapest), cheapest, 0.0)) * n + data.unit
    low, high = 0.0, 100.0 * size / n / max(float(mass @ A.max(axis=0)), 1e-6)
    for _ in range(20):
        q = 0.5 * (low + high)
        chosen = float(mass @ A[(cost - q * A).argmin(axis=0), np.arange(len(probe))])
        low, high = (q, high) if chosen * n < data.need else (low, q)
    limits, edge = data.limits()
    vector: Floats = 0.01 * size / np.maximum(np.abs(limits) * len(data.T), 1e-6)
    vector[edge > 0] = p[: int(edge.sum())]
    vector[-1] = max(high, 0.01 * size / n)
    return vector


def draw(data: Relaxation, vector: Floats, size: int, reach: float) -> tuple[Relaxation, Ints]:
    """A random sample of about `size` tasks, and which tasks they are.

    The chance of a task grows with its cost; its mass in the sample makes up for that. The reliability asked of the
    sample is as far below what the sample can reach as that of all tasks is below `reach`.
    """
    rng = np.random.default_rng(0)
    n = len(data.mass)
    p = np.maximum(data.per_second(data.named(vector)), TINY).astype(data.T.dtype)
    weight = np.empty(n)
    for low in range(0, n, 4096):
        part = slice(low, low + 4096)
        weight[part] = (p[:, None] * data.T[:, part]).min(axis=0)
    weight = np.where(np.isfinite(weight), weight, 0.0)
    weight += weight.mean() + TINY
    chance = np.minimum(weight * (size / weight.sum()), 1.0)
    chance = np.minimum(chance * (size / chance.sum()), 1.0)
    chosen = np.flatnonzero(rng.random(n) < chance)
    sample = data.take(chosen, 1.0 / chance[chosen])
    best = sample.mass @ np.where(np.isfinite(sample.T), sample.A, 0.0).max(axis=0)
    return replace(sample, need=max(data.need - reach + float(best), 0.0)), chosen
