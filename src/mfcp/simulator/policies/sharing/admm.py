"""Shares by ADMM: types of accelerators and jobs in turns, each by itself, from where the last reset ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import ClassVar

import numpy as np
from pydantic import Field

from mfcp.arrays import Floats, Ints
from mfcp.matching.decomposition.alternating_directions import (
    State,
    iterate,
    nonnegative_quadratic,
    project_knapsack,
)
from mfcp.simulator.policies.base import Moment, Shares

_TINY = 1e-300


class MaxMinAdmm(Shares):
    """`max_min` without its linear program.

    Xu et al., "Decouple and decompose: scaling resource allocation with DeDe", OSDI 2025. A step costs no more than
    sorting, and a reset goes on from the shares and prices of the last one.
    """

    name: ClassVar[str] = "max_min_admm"
    iterations: int = Field(1000, ge=1, description="of a reset at most")
    residual: float = Field(1e-4, gt=0, description="relative residual at which a reset ends")

    def solve(self, moment: Moment) -> Floats:
        """From a cold start."""
        return self.watch()(moment)

    def watch(self) -> Callable[[Moment], Floats]:
        """It remembers where the last reset ended."""
        return partial(self._solve, {})

    def _solve(self, last: dict[str, tuple[Ints, State]], moment: Moment) -> Floats:
        blocks = MaxMinBlocks((moment.speed / moment.equal_split[:, None]).T, moment.gpus, moment.size)
        start = blocks.cold()
        if "end" in last:
            job, state = last["end"]
            _, now, before = np.intersect1d(moment.job, job, assume_unique=True, return_indices=True)
            z, v = blocks.going_on(state, now, before)
            start = replace(start, z=z, v=v, rho=state.rho)
        for state in islice(iterate(blocks, start), self.iterations):
            if state.residual <= self.residual:
                break
        best = max(state, state.average(), key=lambda found: blocks.level(blocks.repaired(found.z)))
        last["end"] = moment.job, best
        return blocks.repaired(best.z).T


class FairShares:
    """Shares x (K, k) of k jobs on K types: Σ_j gpus_j x_ij <= size_i of a type, Σ_i x_ij <= 1 of a job, x >= 0.

    The types' side of an ADMM, and what starts and ends it. A point has these rows, and one of levels below them where
    `levels` says so.
    """

    start_rho: ClassVar[float] = 1.0  # over the root of K k
    levels: ClassVar[int] = 0

    def __init__(self, speed: Floats, gpus: Floats | Ints, size: Floats | Ints) -> None:
        """Speeds (K, k) in units of what is to be fair, 0 where a job may not run; gpus (k,); size (K,)."""
        self.open, self.gpus, self.size = speed > 0, gpus.astype(float), size.astype(float)
        self.unit = float(np.sqrt((speed**2).sum(axis=0)).mean())
        self.speed = speed / self.unit
        self.count = self.open.sum(axis=0).astype(float)

    def cold(self) -> State:
        """Every job on all types alike, for as much of the time as the accelerators allow."""
        kinds, jobs = self.speed.shape
        z = np.zeros((kinds + self.levels, jobs))
        z[:kinds] = self.open / np.maximum(self.count, 1.0) * min(1.0, self.size.sum() / self.gpus.sum())
        if self.levels:
            z[kinds] = self.utilities(z).mean()
        return State(z, np.zeros_like(z), self.start_rho / float(np.sqrt(kinds * jobs)))

    def going_on(self, state: State, now: Ints, before: Ints) -> tuple[Floats, Floats]:
        """`z` and `v` where jobs `now` go on from columns `before` of an earlier state, and the others start cold."""
        start = self.cold()
        start.z[:, now], start.v[:, now] = state.z[:, before], state.v[:, before]
        return start.z, start.v

    def shares(self, point: Floats) -> Floats:
        """The types' step: each serves at most the accelerators that it has."""
        return project_knapsack(np.where(self.open, point, -np.inf), self.gpus, self.size)

    def utilities(self, x: Floats) -> Floats:
        """(k,) speeds that shares give, over `unit`."""
        return np.asarray((self.speed * x[: len(self.speed)]).sum(axis=0))

    def level(self, shares: Floats) -> float:
        """The least of all jobs."""
        return self.unit * float(self.utilities(shares).min())

    def repaired(self, point: Floats) -> Floats:
        """(K, k) shares that keep all limits: negative parts cut, then jobs and types scaled down to their limits."""
        x = np.where(self.open, np.maximum(point[: len(self.speed)], 0.0), 0.0)
        x /= np.maximum(x.sum(axis=0), 1.0)
        return np.asarray(x * np.minimum(1.0, self.size / np.maximum(x @ self.gpus, _TINY))[:, None])


class MaxMinBlocks(FairShares):
    """The least is as large as it can be.

    Every job has a copy of the level, which it may not fall below; the types' side agrees on one level.
    """

    start_rho: ClassVar[float] = 3.0
    levels: ClassVar[int] = 1

    def __init__(self, speed: Floats, gpus: Floats | Ints, size: Floats | Ints) -> None:
        super().__init__(speed, gpus, size)
        # rows of a job: Σ_i x_ij <= 1 and level_j - Σ_i speed_ij x_ij <= 0
        cross = -self.speed.sum(axis=0)
        squares = (self.speed**2).sum(axis=0) + 1.0
        self.gram = np.stack([np.stack([self.count, cross]), np.stack([cross, squares])])

    def resource_step(self, point: Floats, rho: float) -> Floats:
        """See `mfcp.matching.decomposition.alternating_directions.Blocks`."""
        level = point[-1].mean() + 1.0 / (rho * point.shape[1])
        return np.vstack([self.shares(point[:-1]), np.full(point.shape[1], level)])

    def demand_step(self, point: Floats, rho: float) -> Floats:
        """See `mfcp.matching.decomposition.alternating_directions.Blocks`."""
        x, level = np.where(self.open, point[:-1], 0.0), point[-1]
        excess = np.stack([x.sum(axis=0) - 1.0, level - self.utilities(x)])
        full, low = nonnegative_quadratic(self.gram, excess, np.zeros_like(excess))
        return np.vstack([x - full * self.open + low * self.speed, level - low])
