"""Prices of one round's constraints, the bound they certify, and the few clusters per task worth a look.

The linear relaxation lets a task be split. With the makespan's weight w, B rows per cluster (the makespan's and those of
`rows_of`) and the reliability row, it is

    min w θ + Σ c_ij x_ij   subject to   load_i <= θ,   Σ_j use_rij x_ij <= limit_ri,   Σ a_ij x_ij >= gamma N,   Σ_i x_ij = 1,

and any prices p >= 0 with Σ p = w, π >= 0, q >= 0 certify (weak duality)

    Σ_j min_i (p_i t_ij + c_ij + Σ_r π_ri use_rij - q a_ij) + q gamma N - Σ π limit <= every plan's objective.

Column generation [Gondzio2013]_: a primal-dual interior point method on W candidates per task, whose prices stay
central and so do not swing; a dense pass over all clusters, which certifies the bound and proposes new candidates; and
so on until the two meet. Before, the same on a sample of tasks, drawn by cost, so that giants are always in it.

Everything about tasks lives in shards, which see prices only; all sums over shards are taken in their order.

.. [Gondzio2013] Gondzio, González-Brevis, Munari, EJOR 224, 2013, doi:10.1016/j.ejor.2012.07.024.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache, reduce
from operator import add
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mfcp.matching.large.candidates import Candidates, Prices, Pricing, Row, gather, rows_of
from mfcp.matching.problem import SLACK, Floats, MatchingProblem

_SHARDS = 8  # at most; the result does not depend on how many threads share them
_WORTH = 40_000  # candidates that make a shard worth its overhead
_NOISE = 4096
_KEEP = 0.01  # a candidate with this share of its task stays
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Relaxation:
    """The linear relaxation of one round, or of a weighted part of its tasks.

    Attributes:
        T, A: (M, n).
        mass: (n,) how many tasks each stands for.
        speed: (M,) factor on the seconds in the makespan rows.
        hourly: (M,) objective per second of T, besides the makespan.
        money: (M, n) objective of the choice, or None.
        rows: with finite limits; their T is `hourly`-free seconds times `busy`.
        busy: (M,) factor on the seconds in rows that have no use of their own.
        cap: (M,) a task with more seconds of T may not run there.
        weight: of the makespan.
        need: Σ a of all tasks, at least.
        penalty: most that a unit of missing Σ a costs; inf where it may not be missing.
    """

    T: Floats
    A: Floats
    mass: Floats
    speed: Floats
    hourly: Floats
    money: Floats | None
    rows: list[Row]
    busy: Floats
    cap: Floats
    weight: float
    need: float
    penalty: float

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
        for row, price in zip(self.rows, prices.rows, strict=True):
            use = self._use(row)[:, tasks]
            part = np.where(price[:, None] > 0, price[:, None] * use, 0.0)
            total += part if row.active is None else part * row.active[tasks]
        return total

    def coefficients(self, cluster: NDArray[np.int32], seconds: Floats, tasks: slice) -> tuple[Floats, Floats]:
        """(n, W, B) on the rows of each candidate's cluster, and (n, W) costs; 0 where a candidate is missing."""
        at = np.maximum(cluster, 0)
        seconds = np.where(cluster < 0, 0.0, seconds)
        b = np.empty((*cluster.shape, self.width))
        if self.weight > 0:
            b[..., 0] = self.speed[at] * seconds
        where = (at, np.arange(len(self.mass))[tasks][:, None])
        for r, row in enumerate(self.rows, self.width - len(self.rows)):
            b[..., r] = self.busy[at] * seconds if row.use is None else np.where(cluster < 0, 0.0, row.use[where])
            if row.active is not None:
                b[..., r] *= row.active[tasks, None]
        cost = self.hourly[at] * seconds
        if self.money is not None:
            cost += np.where(cluster < 0, 0.0, self.money[where])
        return b, cost

    def take(self, tasks: NDArray[np.int64], mass: Floats) -> Relaxation:
        """The relaxation with some tasks only, each standing for `mass` of them."""
        rows = [
            Row(
                row.name,
                None if row.use is None else row.use[:, tasks],
                None if row.active is None else row.active[tasks],
                row.limit,
            )
            for row in self.rows
        ]
        money = None if self.money is None else self.money[:, tasks]
        return replace(self, T=self.T[:, tasks], A=self.A[:, tasks], mass=mass, money=money, rows=rows)

    def _use(self, row: Row) -> Floats:
        return self.busy[:, None] * self.T if row.use is None else row.use


@dataclass
class Shard:
    """Some consecutive tasks: their candidates and the state of the interior point method.

    Every operation is a function of this state and its few small arguments, at most D numbers, so that a shard that is
    lost can be made again by the same operations.
    """

    data: Relaxation
    tasks: slice
    candidates: int
    proposed: tuple[NDArray[np.int32], Floats, Floats] | None = None
    cluster: NDArray[np.int32] = field(default_factory=lambda: np.empty((0, 0), np.int32))
    x: Floats = field(default_factory=lambda: np.empty((0, 0)))

    def price(self, vector: Floats, noise: float) -> Floats:
        """(2,) Σ_j mass_j min_i of the reduced costs and of their sizes; proposes candidates."""
        from mfcp.matching.large import kernels

        n, prices = self.tasks.stop - self.tasks.start, self.data.named(vector)
        table = noise * np.random.default_rng(0).random(_NOISE + 65)
        shape = (n, self.candidates)
        cluster, seconds, reliability = np.empty(shape, np.int32), np.empty(shape), np.empty(shape)
        least = np.empty(n)
        old = self.cluster if len(self.cluster) else np.empty((n, 0), np.int32)
        used = self.x > _KEEP * self.data.mass[self.tasks, None] if len(self.cluster) else np.empty((n, 0), bool)
        step = n if not self.data.rows and self.data.money is None else 1024
        for low in range(0, n, step):
            part = slice(low, min(low + step, n))
            whole = slice(self.tasks.start + low, self.tasks.start + part.stop)
            kernels.price_tasks(
                self.data.T, self.data.A, self.data.extra(prices, whole), self.data.per_second(prices),
                prices.reliability, self.data.cap, table, whole.start, whole.stop, old[part], used[part],
                cluster[part], seconds[part], reliability[part], least[part],
            )  # fmt: skip
        self.proposed = cluster, seconds, reliability
        mass = self.data.mass[self.tasks]
        return np.array([mass @ least, mass @ (np.abs(least) + 2 * prices.reliability)])

    def start(self, vector: Floats, mu: float) -> Floats:
        """Take the proposed candidates and start on the central path at these prices."""
        from mfcp.matching.large import kernels

        if self.proposed is not None:
            self.cluster, self.seconds, self.a = self.proposed
            self.b, self.cost = self.data.coefficients(self.cluster, self.seconds, self.tasks)
            self.x, self.s, self.push = (np.zeros(self.cluster.shape) for _ in range(3))
            self.u = np.zeros(len(self.cluster))
            self.mass = self.data.mass[self.tasks]
            self.proposed = None
        load: Floats = kernels.centre(
            self.cluster, self.b, self.a, self.cost, self.mass, vector, mu, self.x, self.s, self.u
        )
        return load

    def normal(self, size: int) -> tuple[Floats, Floats, Floats]:
        """This shard's (D, D) half of the Newton matrix, (2, D) forces and (2,) Σ x s, Σ cost x."""
        from mfcp.matching.large import kernels

        H, force, sums = np.zeros((size, size)), np.zeros((2, size)), np.zeros(2)
        kernels.normal(self.cluster, self.b, self.a, self.cost, self.mass, self.x, self.s, H, force, sums)
        return H, force, sums

    def reach(self, step: Floats) -> Floats:
        """See `kernels.reach`."""
        from mfcp.matching.large import kernels

        found: Floats = kernels.reach(self.cluster, self.b, self.a, self.mass, self.x, self.s, self.push, step)
        return found

    def correct(self, step: Floats, mu: float, weight: float) -> Floats:
        """See `kernels.correct`."""
        from mfcp.matching.large import kernels

        added: Floats = kernels.correct(
            self.cluster, self.b, self.a, self.mass, self.x, self.s, self.push, step, mu, weight
        )
        return added

    def move(self, step: Floats, primal: float, dual: float) -> None:
        """See `kernels.move`."""
        from mfcp.matching.large import kernels

        kernels.move(self.cluster, self.b, self.a, self.mass, self.x, self.s, self.u, self.push, step, primal, dual)

    def plan(self) -> tuple[NDArray[np.int32], Floats]:
        """Candidates (n, W) and shares (n, W) of each task, cheapest first."""
        order = self.s.argsort(axis=1, kind="stable")
        share = np.take_along_axis(self.x, order, axis=1)
        return np.take_along_axis(self.cluster, order, axis=1), share / share.sum(axis=1, keepdims=True)


class Shards(Protocol):
    """All tasks of a round in shards; another implementation may keep them in other processes."""

    def each(self, operation: str, *args: Any) -> Sequence[Any]:
        """The results of one `Shard` operation on every shard, in the order of the shards."""
        ...


class Threads:
    """Shards of this process, on as many threads as it has cores."""

    def __init__(self, data: Relaxation, candidates: int, threads: int | None = None) -> None:
        n = len(data.mass)
        count = int(np.clip(n * candidates // _WORTH, 1, _SHARDS))
        edges = np.linspace(0, n, count + 1).astype(int).tolist()
        W = min(candidates, len(data.T))
        self.shards = [Shard(data, slice(a, b), W) for a, b in zip(edges[:-1], edges[1:], strict=True)]
        self.threads = min(count, threads or len(os.sched_getaffinity(0)))

    def each(self, operation: str, *args: Any) -> Sequence[Any]:
        """As `Shards.each`."""
        if self.threads == 1:
            return [getattr(shard, operation)(*args) for shard in self.shards]
        return list(_pool(self.threads).map(lambda shard: getattr(shard, operation)(*args), self.shards))


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="mfcp-pricing")


os.register_at_fork(after_in_child=_pool.cache_clear)  # a forked child has the pool's object but not its threads


@dataclass
class Search:
    """What a sequence of dense passes and interior point solves knows so far."""

    vector: Floats
    best: Floats
    bound: float = -np.inf
    value: float = np.inf  # of the restricted relaxation, up to its tolerance; inf while infeasible
    passes: int = 0
    steps: int = 0


def generate(
    data: Relaxation, shards: Shards, vector: Floats, *, tolerance: float, first: float, noise: float, deadline: float
) -> Search:
    """Column generation from prices to a gap of `tolerance`; `first` is how far off the start may be, relative."""
    limits, edge = data.limits()
    vector = np.maximum(vector, 0.0)
    if data.weight > 0:
        vector[edge > 0] *= data.weight / vector[edge > 0].sum()
    vector[-1] = min(vector[-1], data.penalty)
    found = Search(vector, vector)
    exact = False
    off = first
    for attempt in range(12):
        total = reduce(add, shards.each("price", found.vector, noise))
        found.passes += 1
        bound = _certified(data, found.vector, limits, total)
        if bound == np.inf:  # a task without a cluster
            found.bound = np.inf
            break
        if bound > found.bound:
            found.bound, found.best = bound, found.vector
        gap = (found.value - found.bound) / max(abs(found.value), 1e-300) if np.isfinite(found.value) else np.inf
        if gap <= tolerance or exact or time.monotonic() > deadline:
            break
        if attempt:
            off = min(off, max(gap, tolerance)) if np.isfinite(gap) else off
            noise *= 0.3
        # few clusters: the candidates are all there are
        exact = False
        mu = 1.0 * off * abs(found.bound if np.isfinite(found.bound) else 1.0)
        interior(
            data,
            shards,
            found,
            gap_at_start=max(mu, 1e-300),
            tolerance=max(0.3 * tolerance, 0.1 * off * 0.3),
            deadline=deadline,
        )
    return found


def _certified(data: Relaxation, vector: Floats, limits: Floats, total: Floats) -> float:
    """The bound of a dense pass, less what rounding can have added."""
    parts = vector * limits
    size = total[1] + np.abs(parts).sum()
    return float(total[0] - parts.sum() - (len(data.mass) + len(vector) + 16) * _EPS * size)


def interior(
    data: Relaxation, shards: Shards, found: Search, *, gap_at_start: float, tolerance: float, deadline: float
) -> None:
    """Solve the relaxation restricted to the candidates by Mehrotra's predictor and corrector, from found.vector."""
    from scipy.linalg import cho_solve

    limits, edge = data.limits()
    D = len(limits)
    prices = found.vector.copy()
    on = edge > 0
    if data.weight > 0:
        prices[on] = np.maximum(prices[on], 1e-6 * data.weight / on.sum())
        prices[on] *= data.weight / prices[on].sum()
    bounded = np.isfinite(data.penalty)
    entries = len(data.mass) * min(16, len(data.T)) + D
    mu = gap_at_start / entries
    prices[~on] = np.maximum(prices[~on], 1e-12)
    if bounded:
        prices[-1] = min(prices[-1], 0.999 * data.penalty)
    room = data.penalty - prices[-1] if bounded else np.inf
    short = np.zeros(D)
    for attempt in range(4):
        load = reduce(add, shards.each("start", prices, mu))
        missing = mu / room if bounded else 0.0
        short[-1] = missing
        y = mu / prices
        theta = float(prices[on] @ load[on]) / data.weight if data.weight > 0 else 0.0
        off = float(np.abs(prices * (limits + theta * edge + short - load - y)).sum())
        if off <= 10.0 * mu * entries:
            break
        mu *= 4
    for _ in range(60):
        H, force, sums = (reduce(add, parts) for parts in zip(*shards.each("normal", D), strict=True))
        found.steps += 1
        load = force[1]
        short[-1] = missing
        residual = limits + theta * edge + short - load - y
        value = data.weight * theta + sums[1] + (data.penalty * missing if bounded else 0.0)
        complement = sums[0] + y @ prices + (missing * room if bounded else 0.0)
        scale = max(abs(value), 1e-300)
        off = float(np.abs(prices * residual).sum())
        found.vector = prices
        if complement <= tolerance * scale and off <= tolerance * scale:
            found.value = value + off + complement
            return
        if time.monotonic() > deadline:
            break
        mu = complement / entries
        H = H + H.T
        H[np.diag_indices(D)] *= 0.5
        H[np.diag_indices(D)] += y / prices
        if bounded:
            H[-1, -1] += missing / room
        S = 1.0 / np.sqrt(np.maximum(H.diagonal(), 1e-300))
        H *= S[:, None]
        H *= S
        factor = _factor(H)
        if factor is None:
            break

        def solve(rhs: Floats) -> tuple[Floats, float]:
            step = S * cho_solve(factor, S * rhs, check_finite=False)
            if not data.weight > 0:
                return step, 0.0
            flat = S * cho_solve(factor, S * edge, check_finite=False)
            height = float(edge @ step) / float(edge @ flat)
            return step - height * flat, height

        def along(
            step: Floats, height: float, push_y: Floats, push_m: float
        ) -> tuple[float, float, Floats, float, Floats]:
            dy = push_y - y - y / prices * step
            dm = push_m - missing + missing / room * step[-1] if bounded else 0.0
            reaches = shards.each("reach", step)
            r = np.array(reaches)
            low = r.min(axis=0)
            primal = min(low[0], 1.0 / max((-dy / y).max(), 1e-300))
            dual = min(low[1], 1.0 / max((-step / prices).max(), 1e-300))
            if bounded:
                primal = min(primal, 1.0 / max(-dm / missing, 1e-300))
                dual = min(dual, 1.0 / max(step[-1] / room, 1e-300))
            return primal, dual, dy, dm, r[:, 2:].sum(axis=0)

        step, height = solve(force[0] - limits)
        primal, dual, dy, dm, cross = along(step, height, np.zeros(D), 0.0)
        primal, dual = min(primal, 1.0), min(dual, 1.0)
        after = cross[0] + dual * cross[1] + primal * cross[2] + primal * dual * cross[3]
        after += (y + primal * dy) @ (prices + dual * step)
        if bounded:
            after += (missing + primal * dm) * (room - dual * step[-1])
        sigma = min(max((after / complement), 0.0) ** 3, 1.0)
        weight = 1.0
        push_y = (sigma * mu - weight * dy * step) / prices
        push_m = (sigma * mu + weight * dm * step[-1]) / room if bounded else 0.0
        added = reduce(add, shards.each("correct", step, sigma * mu, weight))
        rhs = force[0] + added + push_y - limits
        rhs[-1] -= push_m
        step, height = solve(rhs)
        primal, dual, dy, dm, _ = along(step, height, push_y, push_m)
        primal, dual = min(1.0, 0.95 * primal), min(1.0, 0.95 * dual)
        shards.each("move", step, primal, dual)
        prices = prices + dual * step
        y = y + primal * dy
        theta += primal * (height - theta)
        if bounded:
            missing += primal * dm
            room -= dual * step[-1]
    found.value = np.inf


def _factor(H: Floats) -> Any:
    """Cholesky factor of a matrix with unit diagonal, lifted as little as it takes; None where nothing helps."""
    from scipy.linalg import LinAlgError, cho_factor

    for lift in (1e-11, 1e-8, 1e-5):
        try:
            return cho_factor(H + lift * np.eye(len(H)), lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            continue
    return None


def price(
    problem: MatchingProblem,
    *,
    candidates: int = 16,
    tolerance: float = 1e-4,
    time_limit: float,
    start: Prices | None = None,
    penalty: float | None = None,
    upper: float | None = None,
) -> Pricing:
    """Prices, certified bound and candidates of one round.

    No plan below some value V uses a pair that alone takes longer than V, nor a cluster that is busy for longer, and
    each cluster's load is at most 1 - backlog / V of the makespan. Adding that to the relaxation makes
    min(V, its bound) a bound, whatever V is. V is `upper`, or raised from the bound of the relaxation without.

    Args:
        problem: one round (M, N).
        candidates: clusters per task, at most.
        tolerance: relative gap between the bound and the relaxation that is good enough.
        time_limit: seconds, looked at between steps.
        start: prices of a similar round, of the same clusters; saves the sample.
        penalty: price of a unit of missing Σ a, instead of the constraint.
        upper: value of a known plan, or a guess that the bound may not exceed.
    """
    begun = time.monotonic()
    deadline = begun + time_limit
    stats = {"passes": 0.0, "sample_passes": 0.0, "steps": 0.0, "relaxations": 0.0}
    certified, low, high = -np.inf, -np.inf, np.inf
    best: Search | None = None
    value = np.inf if upper is None else upper
    for _ in range(8):
        data = relax(problem, penalty, value)
        if best is not None:
            vector, first = best.best, 0.01
        elif start is not None:
            vector, first = data.vector(start), 0.05
        else:
            vector, first = guess(data), 1.0
            size = max(8 * problem.clusters, 2000)
            if 3 * size <= problem.tasks:
                sample = draw(data, vector, size)
                found = generate(
                    sample, Threads(sample, candidates), vector,
                    tolerance=1e-2, first=1.0, noise=0.05, deadline=deadline,
                )  # fmt: skip
                vector, first = found.vector, 0.05
                stats["sample_passes"] += found.passes
                stats["steps"] += found.steps
        trial = Threads(data, candidates)
        found = generate(data, trial, vector, tolerance=tolerance, first=first, noise=0.02, deadline=deadline)
        stats["passes"] += found.passes
        stats["steps"] += found.steps
        stats["relaxations"] += 1
        certified = max(certified, min(value, found.bound))
        if best is None or found.value < np.inf:
            best, shards = found, trial
        if found.bound >= value:
            low = value
        else:
            high = min(high, value)
        if upper is not None or time.monotonic() > deadline or not np.isfinite(certified):
            break
        following = _next_value(problem, data, shards, low, high, certified)
        if following is None:
            break
        value = following
    if upper is None and _impossible(problem, data, shards, best, penalty):
        certified = np.inf
    plans = shards.each("plan")
    cluster = np.concatenate([plan[0] for plan in plans])
    share = np.concatenate([plan[1] for plan in plans])
    chosen = replace(gather(problem, rows_of(problem), cluster), share=share)
    stats |= {"value": best.value, "seconds": time.monotonic() - begun}
    return Pricing(data.named(best.best), max(certified, _one_task(problem)), chosen, stats)


def _next_value(
    problem: MatchingProblem, data: Relaxation, shards: Shards, low: float, high: float, certified: float
) -> float | None:
    """The V to try next, or None when nothing is to be won: `low` is certified, at `high` the bound was lower."""
    if not data.weight > 0 or high - certified <= 1e-3 * abs(high):
        return None
    return (
        None if problem.backlog is None else (1.01 * certified if not np.isfinite(high) else 0.5 * (certified + high))
    )


def _one_task(problem: MatchingProblem) -> float:
    """The objective if the worst single task were all there is, each placed where that is least; all linear parts."""
    weights, (M, N) = problem.objective, problem.T.shape
    least = np.ones(M) if problem.zeta is None else problem.zeta[:, 1:].min(axis=1)
    wait = np.zeros(M) if problem.backlog is None else problem.backlog
    longest, total = 0.0, 0.0
    for low in range(0, N, 4096):
        part = slice(low, low + 4096)
        T = problem.T[:, part]
        longest = max(longest, float((least[:, None] * T + wait[:, None]).min(axis=0).max()))
        if weights.total_time or weights.cost:
            linear = weights.total_time * least[:, None] * T
            if weights.cost and problem.cost is not None:
                linear = linear + weights.cost * problem.cost[:, part]
            total += float(linear.min(axis=0).sum())
    return (weights.makespan * longest + total) * (1.0 - 4 * N * _EPS)


def _impossible(
    problem: MatchingProblem, data: Relaxation, shards: Shards, best: Search, penalty: float | None
) -> bool:
    """Whether prices prove that no plan meets the constraints."""
    if penalty is None and float(problem.reachable_gamma()) < problem.gamma - SLACK:
        return True
    if np.isfinite(best.value) or (penalty is not None and not data.rows):
        return False
    slowest = np.zeros(problem.tasks)
    for i in range(problem.clusters):
        every = data.per_second(Prices(np.full(problem.clusters, data.weight), 0.0, np.zeros((0, 0))))[i]
        cost = every * np.where(np.isfinite(data.T[i]), data.T[i], 0.0)
        slowest = np.maximum(slowest, cost if data.money is None else cost + data.money[i])
    most = float(slowest.sum()) + (0.0 if penalty is None else penalty * data.need)
    limits, edge = data.limits()
    for scale in (1.0, 1e3, 1e6):
        ray = np.where(edge > 0, best.vector, scale * best.vector)
        if penalty is not None:
            ray[-1] = min(ray[-1], penalty)
        if _certified(data, ray, limits, reduce(add, shards.each("price", ray, 0.0))) > 2.0 * most:
            return True
    return False


def relax(problem: MatchingProblem, penalty: float | None, value: float) -> Relaxation:
    """The linear relaxation of a round, of plans with an objective below `value`."""
    M, N = problem.clusters, problem.tasks
    weights = problem.objective
    least = np.ones(M) if problem.zeta is None else problem.zeta[:, 1:].min(axis=1)
    wait = np.zeros(M) if problem.backlog is None else problem.backlog
    span = value / weights.makespan * (1.0 + 1e-12) if weights.makespan else np.inf
    cap, speed = np.full(M, np.finfo(np.float64).max), least
    if np.isfinite(span):
        open_ = wait < span
        cap = np.where(open_, (span - wait) / least, -1.0)
        speed = least / np.where(open_, 1.0 - wait / span, 1.0)
    money = None if not weights.cost or problem.cost is None else weights.cost * problem.cost
    rows = []
    T = problem.T
    for row in rows_of(problem):
        use = least[:, None] * problem.T if row.use is None else row.use
        use = (
            np.where(problem.allowed, use, 0.0)
            if row.active is None
            else np.where(problem.allowed & row.active, use, 0.0)
        )
        limit = np.minimum(row.limit, use.sum(axis=1) + 1.0)
        limit = limit + SLACK * (1.0 + limit + wait)  # what `violations` forgives
        T = np.where(use > limit[:, None], np.array(np.inf, T.dtype), T)
        rows.append(Row(row.name, row.use, row.active, limit))
    need = max(float(problem.gamma) - (SLACK if penalty is None else 0.0), 0.0) * N
    return Relaxation(
        np.ascontiguousarray(T), np.ascontiguousarray(problem.A), np.ones(N), speed, weights.total_time * least, money,
        rows, least, cap, weights.makespan, need, np.inf if penalty is None else penalty,
    )  # fmt: skip


def guess(data: Relaxation) -> Floats:
    """(D,) prices in proportion to the clusters' speeds, and as high for reliability as a few hundred tasks need."""
    n = len(data.mass)
    probe = np.unique(np.linspace(0, n - 1, 256).astype(int))
    with np.errstate(invalid="ignore", divide="ignore"):
        T, A = data.T[:, probe].astype(np.float64), data.A[:, probe].astype(np.float64)
        T[data.cap[:, None] < T] = np.inf
        log = np.where(np.isfinite(T), np.log(T), 0.0)
        typical = np.exp(log.sum(axis=1) / np.maximum(np.isfinite(T).sum(axis=1), 1))
        p = 1.0 / (typical * data.speed)
        p *= (data.weight or 1.0) / p.sum()
        cost = (p * data.speed if data.weight > 0 else 0.0) + data.hourly
        cost = np.where(np.isfinite(T), cost[:, None] * T, np.inf)
    if data.money is not None:
        cost += data.money[:, probe]
    size = float(cost.min(axis=0).mean()) * n
    low, high = 0.0, 100.0 * size / n / max(float(A.max(axis=0).mean()), 1e-6)
    for _ in range(20):
        q = 0.5 * (low + high)
        chosen = A[(cost - q * A).argmin(axis=0), np.arange(len(probe))].mean()
        low, high = (q, high) if chosen * n < data.need else (low, q)
    limits, edge = data.limits()
    vector = 0.01 * size / np.maximum(np.abs(limits) * len(data.T), 1e-6)
    vector[edge > 0] = p[: int(edge.sum())]
    vector[-1] = max(high, 0.01 * size / n)
    return vector


def draw(data: Relaxation, vector: Floats, size: int) -> Relaxation:
    """A sample of about `size` tasks by cost: each task's chance grows with it, its mass undoes that."""
    rng = np.random.default_rng(0)
    n = len(data.mass)
    p = data.per_second(data.named(vector))
    weight = np.empty(n)
    for low in range(0, n, 4096):
        part = slice(low, low + 4096)
        weight[part] = (p.astype(data.T.dtype)[:, None] * data.T[:, part]).min(axis=0)
    weight += weight.mean()
    chance = np.minimum(weight * (size / weight.sum()), 1.0)
    chance = np.minimum(chance * (size / chance.sum()), 1.0)
    chosen = np.flatnonzero(rng.random(n) < chance)
    mass = 1.0 / chance[chosen]
    return data.take(chosen, mass)
