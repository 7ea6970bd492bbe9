"""Tasks in shards: whatever needs every task is an operation on shards, which see nothing of the rest but prices.

Sums over shards are taken in a fixed order, so that neither threads nor machines change a bit of the result.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mfcp.arrays import Floats
from mfcp.matching.large.linear_relaxation import Relaxation

_SHARDS = 8  # at most; the result does not depend on how many threads share them
_WORTH = 40_000  # candidates from which on a shard pays for its overhead
_NOISE = 4096
_KEEP = 0.125  # a candidate with this share of its task stays: at most 8


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
        from mfcp.matching.large import pricing_kernels

        n, prices = self.tasks.stop - self.tasks.start, self.data.named(vector)
        table = noise * np.random.default_rng(0).random(_NOISE + pricing_kernels.BLOCK + 1)
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
            costs = pricing_kernels.Costs(
                self.data.T, self.data.A, whole.start, whole.stop, self.data.extra(prices, whole),
                self.data.per_second(prices), prices.reliability, self.data.cap, table,
            )  # fmt: skip
            chosen = pricing_kernels.Chosen(cluster[part], seconds[part], reliability[part], least[part])
            pricing_kernels.price_tasks(costs, spread, old[part], used[part], chosen)
        self.proposed = cluster, seconds, reliability
        mass = self.data.mass[self.tasks]
        return np.array([mass @ least, mass @ (np.abs(least) + 2 * prices.reliability)])

    def start(self, vector: Floats, mu: float) -> Floats:
        """Take the proposed candidates and start on the central path at these prices."""
        from mfcp.matching.large import pricing_kernels

        if self.proposed is not None:
            self.cluster, self.seconds, self.a = self.proposed
            self.b, self.cost = self.data.coefficients(self.cluster, self.seconds, self.tasks)
            self.x, self.s, self.push = (np.zeros(self.cluster.shape) for _ in range(3))
            self.u = np.zeros(len(self.cluster))
            self.mass = self.data.mass[self.tasks]
            self.proposed = None
        load: Floats = pricing_kernels.centre(
            self.cluster, self.b, self.a, self.cost, self.mass, vector, mu, self.x, self.s, self.u
        )
        return load

    def normal(self, size: int) -> tuple[Floats, Floats, Floats]:
        """This shard's (D, D) half of the Newton matrix, (2, D) forces and (2,) Σ x s, Σ cost x."""
        from mfcp.matching.large import pricing_kernels

        H, force, sums = np.zeros((size, size)), np.zeros((2, size)), np.zeros(2)
        pricing_kernels.normal(self.cluster, self.b, self.a, self.cost, self.mass, self.x, self.s, H, force, sums)
        return H, force, sums

    def reach(self, step: Floats) -> Floats:
        """See `pricing_kernels.reach`."""
        from mfcp.matching.large import pricing_kernels

        found: Floats = pricing_kernels.reach(self.cluster, self.b, self.a, self.mass, self.x, self.s, self.push, step)
        return found

    def correct(self, step: Floats, mu: float) -> Floats:
        """See `pricing_kernels.correct`."""
        from mfcp.matching.large import pricing_kernels

        added: Floats = pricing_kernels.correct(
            self.cluster, self.b, self.a, self.mass, self.x, self.s, self.push, step, mu
        )
        return added

    def move(self, step: Floats, primal: float, dual: float) -> None:
        """See `pricing_kernels.move`."""
        from mfcp.matching.large import pricing_kernels

        pricing_kernels.move(
            self.cluster, self.b, self.a, self.mass, self.x, self.s, self.u, self.push, step, primal, dual
        )

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


def whole_plan(shards: Shards) -> tuple[NDArray[np.int32], Floats]:
    """(n, W) candidates and shares of all tasks; see `Shard.plan`."""
    cluster, share = (np.concatenate(parts) for parts in zip(*shards.each("plan"), strict=True))
    return cluster, share


def cut(tasks: int, candidates: int, workers: int = 0) -> list[slice]:
    """The tasks of each shard: as many shards as pay for their overhead, up to a fixed number or `workers`."""
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
