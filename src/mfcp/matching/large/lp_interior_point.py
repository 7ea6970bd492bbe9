"""A primal-dual interior point method for a relaxation restricted to candidates; its system is of prices only.

Mehrotra's predictor and corrector. All that is as long as the tasks are many stays in their shards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from mfcp.arrays import Floats
from mfcp.matching import clock
from mfcp.matching.large.linear_relaxation import TINY, Relaxation
from mfcp.matching.large.shards import Shards

_STEPS = 60  # Newton steps at most


@dataclass
class Progress:
    """The state of column generation between dense passes and interior point solves.

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


@dataclass
class _Pairs:
    """Distances of prices from their limits, and the slacks complementary to them, as x and s are for tasks."""

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
        primal = max(float((-to.y / self.y).max()), float((-to.m / self.m).max()), TINY)
        return 1.0 / primal, 1.0 / max(
            float((-to.below / self.below).max()), float((-to.above / self.above).max()), TINY
        )


def solve_restricted(
    data: Relaxation, shards: Shards, found: Progress, *, width: int, box: float, gap: float, tolerance: float,
    deadline: float,
) -> None:  # fmt: skip
    """Solve the relaxation restricted to the candidates by a primal-dual method.

    Args:
        data: the relaxation.
        found: starts from `found.vector`; gets the prices, the steps, and the value if no price rests on its limit.
        width: candidates per task.
        box: factor around its start that the price of a second stays within. The other prices stay below that factor,
            so that the restricted problem always has a solution.
        gap: least duality gap to start with.
        tolerance: relative gap and residual at which to stop.
        deadline: `clock.seconds()` after which to stop.
    """
    limits, edge = data.limits()
    D = len(limits)
    entries = len(data.mass) * width + 2 * D
    found.value = np.inf
    begun = _begin(data, shards, found, box, gap, entries)
    if begun is None:
        return
    prices, highest, pairs, theta = begun
    for _ in range(_STEPS):
        H, force, sums = (reduce(add, parts) for parts in zip(*shards.each("normal", D), strict=True))
        found.steps += 1
        found.vector = prices
        residual = float(np.abs(prices * (limits + theta * edge + pairs.m - force[1] - pairs.y)).sum())
        value = data.weight * theta + sums[1] + (highest * pairs.m).sum()
        complement = sums[0] + pairs.product()
        enough = tolerance * max(abs(value), data.unit)
        if complement <= enough and residual <= enough:
            pressed = pairs.above <= 0.1 * highest  # would go higher if they could
            pressed[-1] &= highest[-1] < data.penalty
            found.value = np.inf if pressed.any() else value + residual
            break
        solve = _solver(H, pairs, edge)
        if solve is None or clock.seconds() > deadline:
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


def _begin(
    data: Relaxation, shards: Shards, found: Progress, box: float, gap: float, entries: int
) -> tuple[Floats, Floats, _Pairs, float] | None:
    """Prices, their upper limits, their pairs and θ on the central path; None where no plan is so cheap.

    A gap far below what the rows miss at first would make every step tiny, so that the gap is raised until it is not.
    """
    limits, edge = data.limits()
    on = edge > 0
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
    for more in (1.0, 4.0, 16.0):
        mu = more * gap / entries
        load = reduce(add, shards.each("start", prices, mu))
        if not np.isfinite(load).all():  # no plan is so cheap: prices have grown until rounding swallows the slacks
            return None
        pairs = _Pairs(below, above, mu / below, mu / above)
        theta = float(prices[on] @ load[on]) / data.weight if data.weight > 0 else 0.0
        missed = float(np.abs(prices * (limits + theta * edge + pairs.m - load - pairs.y)).sum())
        if missed <= more * gap:
            break
    return prices, highest, pairs, theta


def _reach(shards: Shards, pairs: _Pairs, to: _Pairs, step: Floats) -> tuple[float, float, Floats]:
    """Primal and dual step to the border, and the sums of `pricing_kernels.reach`."""
    reached = np.array(shards.each("reach", step))
    primal, dual = pairs.reach(to)
    return min(primal, float(reached[:, 0].min())), min(dual, float(reached[:, 1].min())), reached[:, 2:].sum(axis=0)


def _solver(H: Floats, pairs: _Pairs, edge: Floats) -> Callable[[Floats], tuple[Floats, float]] | None:
    """A solver of the Newton system for prices and θ; None where the matrix cannot be factorised.

    Args:
        H: (D, D) the shards' sum, of which the lower triangle counts; overwritten.
        pairs: of the prices.
        edge: (D,) 1 on the makespan's rows, whose prices keep their sum.
    """
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    diagonal = H.diagonal() + pairs.y / pairs.below + pairs.m / pairs.above
    S = 1.0 / np.sqrt(np.maximum(diagonal, TINY))
    H *= S[:, None]
    H *= S
    for lift in (1e-11, 1e-8, 1e-5):
        H[np.diag_indices(len(S))] = 1.0 + lift
        try:
            factor = cho_factor(H.T, check_finite=False)  # the upper triangle by columns, as LAPACK has it
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
