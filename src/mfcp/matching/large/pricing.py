"""Prices of one round's constraints, the bound they certify, and the few clusters per task worth a look.

The linear relaxation lets a task be split. With the makespan's weight w, B rows per cluster (the makespan's and those
of `rows_of`) and the reliability row, it is

    min w θ + Σ c_ij x_ij,   load_i <= θ,   Σ_j use_rij x_ij <= limit_ri,   Σ a_ij x_ij >= gamma N,   Σ_i x_ij = 1,

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
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache, reduce
from itertools import pairwise
from operator import add
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mfcp.matching.large.candidates import Prices, Pricing, Row, gather, rows_of
from mfcp.matching.problem import SLACK, Floats, MatchingProblem

_SHARDS = 8  # at most; the result does not depend on how many threads share them
_WORTH = 40_000  # candidates that make a shard worth its overhead
_NOISE = 4096
_KEEP = 0.125  # a candidate with this share of its task stays: at most 8
_WIDE = (
    8.0  # duality gap to start with, in units of how far off the prices are: each task has few candidates that matter
)
_ROUNDS = 12  # dense passes at most
_STEPS = 60  # of the interior point method between two dense passes, at most
_BOX = 4.0  # factor that prices may move by in the first solve
_VALUES = 6  # relaxations beyond the first, at most
_CHEAP = 10**6  # entries up to which accuracy takes no time to speak of
_TINY = 1e-300
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

    def take(self, tasks: NDArray[np.int64] | slice, mass: Floats) -> Relaxation:
        """The relaxation with some tasks only, each standing for `mass` of them."""
        rows = [Row(row.name, use[:, tasks], None, row.limit) for row, use in zip(self.rows, self.uses, strict=True)]
        money = None if self.money is None else self.money[:, tasks]
        return replace(self, T=self.T[:, tasks], A=self.A[:, tasks], mass=mass, money=money, rows=rows)

    @property
    def uses(self) -> list[Floats]:
        """(M, n) of each row."""
        return [row.use for row in self.rows if row.use is not None]


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

    def price(self, vector: Floats, noise: float, spread: int) -> Floats:
        """(2,) Σ_j mass_j min_i of the reduced costs and of their sizes; proposes candidates."""
        from mfcp.matching.large import kernels

        n, prices = self.tasks.stop - self.tasks.start, self.data.named(vector)
        table = noise * np.random.default_rng(0).random(_NOISE + 257)
        shape = (n, self.candidates)
        cluster, seconds, reliability = np.empty(shape, np.int32), np.empty(shape), np.empty(shape)
        least = np.empty(n)
        old = self.cluster if len(self.cluster) else np.empty((n, 0), np.int32)
        used = self.x > _KEEP * self.data.mass[self.tasks, None] if len(self.cluster) else np.empty((n, 0), bool)
        spread = min(spread, self.candidates // 2) if self.candidates < len(self.data.T) else 0
        step = n if not self.data.rows and self.data.money is None else 1024
        for low in range(0, n, step):
            part = slice(low, min(low + step, n))
            whole = slice(self.tasks.start + low, self.tasks.start + part.stop)
            kernels.price_tasks(
                self.data.T, self.data.A, self.data.extra(prices, whole), self.data.per_second(prices),
                prices.reliability, self.data.cap, table, whole.start, whole.stop, spread, old[part], used[part],
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

    def correct(self, step: Floats, mu: float) -> Floats:
        """See `kernels.correct`."""
        from mfcp.matching.large import kernels

        added: Floats = kernels.correct(self.cluster, self.b, self.a, self.mass, self.x, self.s, self.push, step, mu)
        return added

    def move(self, step: Floats, primal: float, dual: float) -> None:
        """See `kernels.move`."""
        from mfcp.matching.large import kernels

        kernels.move(self.cluster, self.b, self.a, self.mass, self.x, self.s, self.u, self.push, step, primal, dual)

    def plan(self) -> tuple[NDArray[np.int32], Floats]:
        """Candidates (n, W) and shares (n, W) of each task, cheapest first."""
        if self.proposed is not None and not len(self.x):  # some task has no cluster: there is nothing to share out
            cluster = self.proposed[0]
            return cluster, np.eye(1, cluster.shape[1]).repeat(len(cluster), axis=0)
        order = self.s.argsort(axis=1, kind="stable")
        share = np.take_along_axis(self.x, order, axis=1)
        return np.take_along_axis(self.cluster, order, axis=1), share / share.sum(axis=1, keepdims=True)


class Shards(Protocol):
    """All tasks of a round in shards; another implementation may keep them in other processes."""

    def each(self, operation: str, *args: Any) -> Sequence[Any]:
        """The results of one `Shard` operation on every shard, in the order of the shards."""
        ...


def cut(tasks: int, candidates: int, workers: int = 0) -> list[slice]:
    """The tasks of each shard; no more shards than are worth it, or than a fixed number and `workers`."""
    count = int(np.clip(tasks * candidates // _WORTH, 1, max(_SHARDS, workers)))
    edges = np.linspace(0, tasks, count + 1).astype(int).tolist()
    return [slice(a, b) for a, b in pairwise(edges)]


class Threads:
    """Shards of this process, on as many threads as it has cores."""

    def __init__(self, data: Relaxation, candidates: int, threads: int | None = None) -> None:
        W = min(candidates, len(data.T))
        self.shards = [Shard(data, tasks, W) for tasks in cut(len(data.mass), candidates)]
        self.threads = min(len(self.shards), threads or len(os.sched_getaffinity(0)))

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
    """What a sequence of dense passes and interior point solves knows so far.

    Attributes:
        vector: (D,) prices at hand.
        best: (D,) prices of `bound`, the best certified.
        value: of the restricted relaxation, not below it but for rounding; inf while unknown.
        passes, steps: dense passes, Newton steps.
    """

    vector: Floats
    best: Floats
    bound: float = -np.inf
    value: float = np.inf
    passes: int = 0
    steps: int = 0


def generate(
    data: Relaxation, shards: Shards, vector: Floats, *, width: int, tolerance: float, off: float, deadline: float,
    floor: float,
) -> Search:  # fmt: skip
    """Column generation from prices to a gap of `tolerance`, or to a relaxation not above a bound known otherwise.

    `off` is how far off the start may be, relative; `floor` is that bound.

    The factor that prices may move by grows from solve to solve: at first, a cluster that is nobody's candidate must
    not become so cheap that it is everybody's next time.
    """
    limits, edge = data.limits()
    vector = np.maximum(vector, 0.0)
    if data.weight > 0:
        vector[edge > 0] *= data.weight / vector[edge > 0].sum()
    vector[-1] = min(vector[-1], data.penalty)
    found = Search(vector, vector)
    for attempt in range(_ROUNDS):
        noise = float(np.clip(2.0 * off, 0.01, 0.5))
        total = reduce(add, shards.each("price", found.vector, noise, 2 if off > 0.01 else 1))
        found.passes += 1
        bound = _certified(data, found.vector, limits, total)
        if bound > found.bound:
            found.bound, found.best = bound, found.vector
        gap = (found.value - found.bound) / max(abs(found.value), data.unit) if np.isfinite(found.value) else np.inf
        if gap <= tolerance or found.value <= floor or bound == np.inf or time.monotonic() > deadline:
            break
        if np.isfinite(gap):
            off = min(off, max(gap, tolerance))
        apart = 1.0 - max(found.bound, 0.0) / max(floor, _TINY)  # prices far below another bound need not be exact
        interior(
            data, shards, found, width=min(width, len(data.T)), box=_BOX ** (attempt + 1), deadline=deadline,
            gap=_WIDE * off * max(abs(found.bound), data.unit), tolerance=max(0.3 * tolerance, 0.02 * off, 0.1 * apart),
        )  # fmt: skip
    return found


def _certified(data: Relaxation, vector: Floats, limits: Floats, total: Floats) -> float:
    """The bound of a dense pass, less what rounding can have added."""
    if total[0] == np.inf:  # a task without a cluster
        return np.inf
    parts = vector * limits
    size = total[1] + np.abs(parts).sum()
    return float(total[0] - parts.sum() - (len(data.mass) + len(vector) + 16) * _EPS * size)


@dataclass
class _Pairs:
    """Prices between their limits, and the slacks that pair with the distances: what the tasks' x and s are to them."""

    below: Floats  # price - lowest
    above: Floats  # highest - price
    y: Floats  # slack of the row, pairs with below
    m: Floats  # what the row is missing, pairs with above

    def step(self, step: Floats, push_y: Floats, push_m: Floats) -> _Pairs:
        """The direction that goes with a step in the prices."""
        dy = push_y - self.y - self.y / self.below * step
        return _Pairs(step, -step, dy, push_m - self.m + self.m / self.above * step)

    def moved(self, to: _Pairs, primal: float, dual: float) -> _Pairs:
        """These pairs, some way along a direction."""
        y, m = self.y + primal * to.y, self.m + primal * to.m
        return _Pairs(self.below + dual * to.below, self.above + dual * to.above, y, m)

    def product(self) -> float:
        """Their complementarity."""
        return float(self.y @ self.below + self.m @ self.above)

    def reach(self, to: _Pairs) -> tuple[float, float]:
        """Primal and dual step to the border."""
        primal = max(float((-to.y / self.y).max()), float((-to.m / self.m).max()), _TINY)
        return 1.0 / primal, 1.0 / max(
            float((-to.below / self.below).max()), float((-to.above / self.above).max()), _TINY
        )


def interior(
    data: Relaxation, shards: Shards, found: Search, *, width: int, box: float, gap: float, tolerance: float,
    deadline: float,
) -> None:  # fmt: skip
    """Solve the relaxation restricted to the candidates by a primal-dual method, from the prices found.vector.

    The prices of seconds stay within a factor `box` of where they start, the others below that, so that the restricted
    problem always has a solution; found.value is set if that does not rest on the limits. `gap` is the duality gap to
    start with.
    """
    limits, edge = data.limits()
    D, on = len(limits), edge > 0
    typical = max(abs(found.bound), data.unit) / np.maximum(np.abs(limits) * len(data.T), 1e-6)
    if data.weight > 0:
        typical[on] = 1e-6 * data.weight / on.sum()
    prices = np.maximum(found.vector, 1e-6 * typical)
    if data.weight > 0:
        prices[on] *= data.weight / prices[on].sum()
    prices[-1] = min(prices[-1], 0.9 * data.penalty)
    highest = box * np.where(on, prices, np.maximum(prices, 1e-3 * typical))
    highest[-1] = min(highest[-1], data.penalty)
    below, above = prices - np.where(on, prices / box, 0.0), highest - prices

    entries = len(data.mass) * width + 2 * D
    mu = gap / entries
    load = reduce(add, shards.each("start", prices, mu))
    pairs = _Pairs(below, above, mu / below, mu / above)
    theta = float(prices[on] @ load[on]) / data.weight if data.weight > 0 else 0.0

    found.value = np.inf
    for _ in range(_STEPS):
        H, force, sums = (reduce(add, parts) for parts in zip(*shards.each("normal", D), strict=True))
        found.steps += 1
        found.vector = prices
        residual = float(np.abs(prices * (limits + theta * edge + pairs.m - force[1] - pairs.y)).sum())
        artificial = highest * pairs.m
        value = data.weight * theta + sums[1] + artificial.sum()
        complement = sums[0] + pairs.product()
        enough = tolerance * max(abs(value), data.unit)
        if complement <= enough and residual <= enough:
            pressed = pairs.above <= 0.1 * highest  # would go higher if they could
            pressed[-1] &= highest[-1] < data.penalty
            found.value = np.inf if pressed.any() else value + residual
            break
        solve = _solver(H, pairs, edge)
        if solve is None or time.monotonic() > deadline:
            break
        # predictor: straight to a gap of 0
        step, _ = solve(force[0] - limits)
        to = pairs.step(step, np.zeros(D), np.zeros(D))
        primal, dual, cross = _reach(shards, pairs, to, step)
        primal, dual = min(primal, 1.0), min(dual, 1.0)
        after = cross[0] + dual * cross[1] + primal * cross[2] + primal * dual * cross[3]
        after += pairs.moved(to, primal, dual).product()
        mu = min(max(after / complement, 0.0) ** 3, 1.0) * complement / entries
        # corrector: to the products mu, counting in what the predictor would make of them
        full = pairs.moved(to, 1.0, 1.0)
        push_y = np.maximum(mu - full.y * full.below, -mu) / pairs.below
        push_m = np.maximum(mu - full.m * full.above, -mu) / pairs.above
        added = reduce(add, shards.each("correct", step, mu))
        step, height = solve(force[0] + added + push_y - push_m - limits)
        to = pairs.step(step, push_y, push_m)
        primal, dual, _cross = _reach(shards, pairs, to, step)
        primal, dual = min(1.0, 0.95 * primal), min(1.0, 0.95 * dual)
        shards.each("move", step, primal, dual)
        prices, pairs = prices + dual * step, pairs.moved(to, primal, dual)
        theta += primal * (height - theta)


def _reach(shards: Shards, pairs: _Pairs, to: _Pairs, step: Floats) -> tuple[float, float, Floats]:
    """Primal and dual step to the border, and the sums of `kernels.reach`."""
    reached = np.array(shards.each("reach", step))
    primal, dual = pairs.reach(to)
    return min(primal, float(reached[:, 0].min())), min(dual, float(reached[:, 1].min())), reached[:, 2:].sum(axis=0)


def _solver(H: Floats, pairs: _Pairs, edge: Floats) -> Callable[[Floats], tuple[Floats, float]] | None:
    """Solves the Newton system for prices and θ; None where the matrix is beyond help.

    Args:
        H: (D, D) the shards' sum, each pair of rows on one side of the diagonal; overwritten.
        pairs: of the prices.
        edge: (D,) 1 on the makespan's rows, whose prices keep their sum.
    """
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    whole = H + H.T
    diagonal = H.diagonal() + pairs.y / pairs.below + pairs.m / pairs.above
    S = 1.0 / np.sqrt(np.maximum(diagonal, _TINY))
    whole *= S[:, None]
    whole *= S
    for lift in (1e-11, 1e-8, 1e-5):
        whole[np.diag_indices(len(S))] = 1.0 + lift
        try:
            factor = cho_factor(whole, lower=True, check_finite=False)
        except LinAlgError:
            continue
        flat = S * cho_solve(factor, S * edge, check_finite=False)

        def solve(force: Floats) -> tuple[Floats, float]:
            step = S * cho_solve(factor, S * force, check_finite=False)  # noqa: B023  returned at once
            if not edge.any():
                return step, 0.0
            height = float(edge @ step) / float(edge @ flat)  # noqa: B023
            return step - height * flat, height  # noqa: B023

        return solve
    return None


def price(
    problem: MatchingProblem,
    *,
    candidates: int = 10,
    tolerance: float | None = None,
    time_limit: float,
    start: Prices | None = None,
    penalty: float | None = None,
    upper: float | None = None,
    place: Callable[[Relaxation, int], Shards] = Threads,
) -> Pricing:
    """Prices, certified bound and candidates of one round.

    No plan with an objective below V uses a pair that alone takes longer than V, nor a cluster that is busy for longer,
    and each cluster's load is at most 1 - backlog / V of the makespan. With that in the relaxation, min(V, its bound)
    is a bound, whatever V is. V is `upper`; without it, a few are tried where backlog or giant tasks make it worth
    the time. Tasks that are equal in everything are one task of the relaxation, whose mass is their number.

    Args:
        problem: one round (M, N).
        candidates: clusters per task, at most.
        tolerance: relative gap between the bound and the relaxation that is good enough; by default far below what the
            integer plan loses anyway, which grows with M / N.
        time_limit: seconds, looked at between steps.
        start: prices of a similar round, of the same clusters and rows; saves the sample.
        penalty: price of a unit of missing Σ a, instead of the constraint.
        upper: value of a known plan; the bound does not exceed it.
        place: where the shards of a relaxation with so many candidates are kept.
    """
    begun = time.monotonic()
    deadline = begun + time_limit
    stats = {"passes": 0.0, "sample_passes": 0.0, "steps": 0.0, "relaxations": 0.0}
    reachable = float(problem.reachable_gamma())
    possible = penalty is not None or reachable >= problem.gamma - SLACK
    round_ = problem if possible else problem.at(reachable)

    kinds = alike(problem)
    width = candidates
    if kinds is not None:
        width = min(problem.clusters, candidates * round((problem.tasks / (1 + kinds.max())) ** 0.5))

    def solve(value: float, factor: Floats, known: Floats | None, off: float) -> tuple[Relaxation, Shards, Search]:
        data = relax(round_, factor, penalty, value)
        if kinds is not None:
            first, many = np.unique(kinds, return_index=True, return_counts=True)[1:]
            data = data.take(first, many.astype(np.float64))
        size = max(8 * problem.clusters, 2000)
        vector = guess(data) if known is None else known
        if known is None and 3 * size <= len(data.mass):
            sample = draw(data, vector, size, reachable * problem.tasks)
            found = generate(
                sample, Threads(sample, width), vector, width=width, tolerance=1e-2, off=1.0, deadline=deadline,
                floor=floor,
            )  # fmt: skip
            vector, off = found.vector, 0.05
            stats["sample_passes"] += found.passes
            stats["steps"] += found.steps
        shards = place(data, width)
        found = generate(data, shards, vector, width=width, tolerance=wanted, off=off, deadline=deadline, floor=floor)
        stats["passes"] += found.passes
        stats["steps"] += found.steps
        stats["relaxations"] += 1
        return data, shards, found

    least, typical = _factors(problem)
    longest, linear = _alone(problem, least)
    weight = problem.objective.makespan
    floor = weight * longest + linear
    wanted = _tolerance(problem) if tolerance is None else tolerance
    known = None
    if start is not None:
        known = relax(round_, least, penalty, np.inf).vector(start)
    value = np.inf if upper is None else upper
    data, shards, found = solve(value, least, known, 1.0 if known is None else 0.05)
    certified = max(min(value, found.bound), floor)
    if found.bound == np.inf and value < np.inf:  # nothing below `upper` exists
        data, shards, found = solve(np.inf, least, known, 1.0 if known is None else 0.05)
    elif found.bound < np.inf and (
        problem.backlog is not None or 0.5 * found.bound < weight * longest < 1.2 * found.bound
    ):
        high, growth = value, 0.05 if problem.backlog is not None else 0.002
        for _ in range(_VALUES):
            if high - certified <= 1e-3 * abs(certified) or time.monotonic() > deadline:
                break
            value = 0.5 * (certified + high) if np.isfinite(high) else certified + growth * abs(certified)
            growth *= 4.0
            trial, its_shards, tried = solve(value, least, found.best, 0.01)
            certified = max(certified, min(value, tried.bound))
            if tried.bound < value:
                high = value
            if np.isfinite(tried.value):
                data, shards, found = trial, its_shards, tried
    if not possible or _impossible(data, shards, found):
        certified = np.inf
    if not np.allclose(typical / typical[0], least / least[0]):
        data, shards, found = solve(np.inf, typical, found.best, 0.1)
    plans = shards.each("plan")
    cluster, share = (np.concatenate(parts) for parts in zip(*plans, strict=True))
    if kinds is not None:
        cluster, share = dealt(cluster, share, kinds, candidates)
    chosen = replace(gather(problem, rows_of(problem), cluster), share=share)
    stats |= {"value": found.value, "seconds": time.monotonic() - begun}
    return Pricing(data.named(found.best), certified, chosen, stats)


def alike(problem: MatchingProblem) -> NDArray[np.int64] | None:
    """(N,) kind of each task, where far fewer kinds than tasks exist: tasks of a kind are equal in everything.

    None if a look at some pairs of tasks finds no two alike.
    """
    N = problem.tasks
    tables = [problem.T, problem.A, *(row.use for row in rows_of(problem) if row.use is not None)]
    tables += [table for table in (problem.cost,) if table is not None]
    flags = [problem.allowed] if not problem.allowed.all() else []

    def keys(tasks: NDArray[np.int64]) -> list[bytes]:
        parts = [np.ascontiguousarray(table[:, tasks].T).view(np.uint8) for table in [*tables, *flags]]
        if problem.deadline is not None:
            parts.append(np.ascontiguousarray(problem.deadline[tasks, None]).view(np.uint8))
        return [row.tobytes() for row in np.concatenate(parts, axis=1)]

    some = _probe(N)
    if len(set(keys(some))) == len(some):
        return None
    known: dict[bytes, int] = {}
    kinds = np.empty(N, np.int64)
    for low in range(0, N, 1024):
        tasks = np.arange(low, min(low + 1024, N))
        for j, key in zip(tasks, keys(tasks), strict=True):
            kinds[j] = known.setdefault(key, len(known))
        if len(known) > max(N / 4, 1024):
            return None
    return kinds


def dealt(
    cluster: NDArray[np.int32], share: Floats, kinds: NDArray[np.int64], candidates: int
) -> tuple[NDArray[np.int32], Floats]:
    """Candidates and shares of tasks, (N, W), from those of their kinds, whose clusters they take in turn.

    A kind's shares are laid end to end and cut into equal pieces, one per task. A task's candidates begin where its
    piece does.
    """
    N, V = len(kinds), cluster.shape[1]
    many = np.bincount(kinds)
    begin = np.empty(N)
    begin[np.argsort(kinds, kind="stable")] = np.arange(N) - np.repeat(many.cumsum() - many, many)
    begin /= many[kinds]
    edges = share.cumsum(axis=1)
    wide = min(candidates, V)
    chosen, part = np.empty((N, wide), np.int32), np.empty((N, wide))
    for low in range(0, N, 1024):
        tasks = slice(low, low + 1024)
        kind, left = kinds[tasks, None], begin[tasks, None]
        first = np.minimum((edges[kinds[tasks]] <= left).sum(axis=1), V - 1)
        turn = (first[:, None] + np.arange(wide)) % V
        right = np.minimum(edges[kind, turn], left + 1.0 / many[kind])
        chosen[tasks] = cluster[kind, turn]
        part[tasks] = np.maximum(right - np.maximum(edges[kind, turn] - share[kind, turn], left), 0.0)
    part[:, 0] = np.maximum(part[:, 0], _TINY)  # rounding may have left nothing
    part[chosen < 0] = 0.0
    present = np.argsort(chosen < 0, axis=1, kind="stable")
    part = np.take_along_axis(part / part.sum(axis=1, keepdims=True), present, axis=1)
    return np.take_along_axis(chosen, present, axis=1), part


def _tolerance(problem: MatchingProblem) -> float:
    if problem.T.size <= _CHEAP:
        return 1e-4
    return float(np.clip(0.1 * problem.clusters / problem.tasks, 1e-4, 1e-3))


def _factors(problem: MatchingProblem) -> tuple[Floats, Floats]:
    """(M,) factor of parallel execution at its least, for bounds, and with an equal share of the tasks."""
    if problem.zeta is None:
        return np.ones(problem.clusters), np.ones(problem.clusters)
    even = max(1, round(problem.tasks / problem.clusters))
    return problem.zeta[:, 1:].min(axis=1), problem.zeta[:, even]


def _alone(problem: MatchingProblem, least: Floats) -> tuple[float, float]:
    """Seconds until the worst task is done where that is earliest, and Σ_j of the least linear objective."""
    weights = problem.objective
    wait = None if problem.backlog is None else problem.backlog[:, None]
    longest = linear = 0.0
    for low in range(0, problem.tasks, 4096):
        part = slice(low, low + 4096)
        T = problem.T[:, part] if problem.zeta is None else least[:, None] * problem.T[:, part]
        longest = max(longest, float((T if wait is None else T + wait).min(axis=0).max()))
        if not weights.total_time and not weights.cost:
            continue
        parts = weights.total_time * T if weights.total_time else np.where(np.isfinite(T), 0.0, np.inf)
        if weights.cost and problem.cost is not None:
            parts = np.where(np.isfinite(T), parts + weights.cost * problem.cost[:, part], np.inf)
        linear += float(parts.min(axis=0).sum())
    safe = 1.0 - (4 + problem.tasks) * _EPS
    return longest * safe, linear * safe


def _impossible(data: Relaxation, shards: Shards, found: Search) -> bool:
    """Whether prices certify more than any plan can cost: the constraints cannot be met."""
    if np.isfinite(found.value) or not data.rows:
        return False
    each = data.weight * data.speed + data.hourly
    most = np.zeros(len(data.mass))
    for i, seconds in enumerate(data.T):
        cost = each[i] * np.where(np.isfinite(seconds), seconds, 0.0)
        if data.money is not None:
            cost += np.where(np.isfinite(seconds), data.money[i], 0.0)
        most = np.maximum(most, cost)
    limits, edge = data.limits()
    for scale in (1.0, 1e2, 1e4, 1e6):
        ray = np.where(edge > 0, found.best, np.minimum(scale * found.best, 1e100))
        ray[-1] = min(ray[-1], data.penalty)
        total = reduce(add, shards.each("price", ray, 0.0, 0))
        if _certified(data, ray, limits, total) > 2.0 * (
            data.mass @ most + min(data.penalty, 1e100) * data.need * (data.penalty < np.inf)
        ):
            return True
    return False


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
    hourly, probe = weights.total_time * factor, _probe(N)
    sizes = np.where(np.isfinite(problem.T[:, probe]), problem.T[:, probe], 0.0)
    sizes = (weights.makespan * factor / M + hourly)[:, None] * sizes
    if money is not None:
        sizes = sizes + np.abs(money[:, probe])
    return Relaxation(
        np.ascontiguousarray(T), np.ascontiguousarray(problem.A), np.ones(N), speed, hourly, money, rows, cap,
        weights.makespan, need, np.inf if penalty is None else penalty, 1e-9 * N * (float(sizes.max()) or 1.0),
    )  # fmt: skip


def _probe(tasks: int) -> NDArray[np.int64]:
    """A few hundred tasks."""
    return np.unique(np.linspace(0, tasks - 1, 256).astype(np.int64))


def guess(data: Relaxation) -> Floats:
    """(D,) prices in proportion to the clusters' speeds, and as high for reliability as a few hundred tasks need."""
    n = data.mass.sum()
    probe = _probe(len(data.mass))
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


def draw(data: Relaxation, vector: Floats, size: int, reach: float) -> Relaxation:
    """A sample of about `size` tasks by cost: each task's chance grows with it, its mass undoes that.

    What is asked of the sample's reliability is as far from what it can reach as all tasks' is from their `reach`.
    """
    rng = np.random.default_rng(0)
    n = len(data.mass)
    p = np.maximum(data.per_second(data.named(vector)), _TINY).astype(data.T.dtype)
    weight = np.empty(n)
    for low in range(0, n, 4096):
        part = slice(low, low + 4096)
        weight[part] = (p[:, None] * data.T[:, part]).min(axis=0)
    weight = np.where(np.isfinite(weight), weight, 0.0)
    weight += weight.mean() + _TINY
    chance = np.minimum(weight * (size / weight.sum()), 1.0)
    chance = np.minimum(chance * (size / chance.sum()), 1.0)
    chosen = np.flatnonzero(rng.random(n) < chance)
    sample = data.take(chosen, 1.0 / chance[chosen])
    best = sample.mass @ np.where(np.isfinite(sample.T), sample.A, 0.0).max(axis=0)
    return replace(sample, need=max(data.need - reach + float(best), 0.0))
