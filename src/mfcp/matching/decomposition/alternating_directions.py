"""Decouple and decompose: ADMM between everything that a resource couples and everything that a demand couples.

An allocation problem has rows (one per resource) and columns (one per demand), each with constraints and a cost of
its own [Xu2025]_:

    min Σ_i f_i(x_i·) + Σ_j h_j(x_·j)    x_i· allowed by resource i,  x_·j allowed by demand j.

Give the resources one copy x and the demands another, z, and ask for x = z. Scaled ADMM alternates between them:

    x := argmin_x f(x) + ρ/2 ||x - (z - v)||²      every resource by itself
    z := argmin_z h(z) + ρ/2 ||z - (x + v)||²      every demand by itself
    v := v + x - z

The constraints stay inside the two steps, which are projections in closed form, so there are neither slacks nor
multipliers for them; ρ v is the price at which the two sides trade each entry. A problem is an object with these two
steps (`Blocks`), each batched over all its rows or columns; `iterate` is all the rest. On linear problems its iterates
circle around the solution, so it goes on from their average now and then, as restarted first-order methods for linear
programs do [Applegate2021]_.

.. [Applegate2021] Applegate et al., Practical large-scale linear programming using PDHG, arXiv:2106.04756.
.. [Xu2025] Xu, Yu, Yan, DeDe, OSDI '25, arXiv:2412.11447.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Protocol

import numpy as np

from mfcp.arrays import Floats

RELAXATION = 1.6
BALANCE_AT = (10, 20, 40, 80, 160, 320)  # iterations at which rho may change: rarely, and then never again
BALANCED = 2.0  # residuals within this factor of each other leave rho alone
MOST_CHANGE = 5.0  # of rho at once
RESTART_AFTER = 30  # iterations at least from one restart to the next,
RESTART_SHARE = 0.4  # and this share of all iterations so far
SETTLED = 1e-9  # relative change of multipliers at which their coordinate descent stops
SWEEPS = 60  # of that descent at most
TINY = 1e-100


class Blocks(Protocol):
    """The two halves of a problem; a point is one array that holds every entry that both sides have a copy of."""

    def resource_step(self, point: Floats, rho: float) -> Floats:
        """argmin_x f(x) + ρ/2 ||x - point||², every resource by itself."""

    def demand_step(self, point: Floats, rho: float) -> Floats:
        """argmin_z h(z) + ρ/2 ||z - point||², every demand by itself."""


@dataclass(frozen=True)
class State:
    """Where an ADMM stands: all that a later, similar problem needs to go on from.

    Attributes:
        z: the demands' copy.
        v: scaled dual of x = z.
        rho: penalty.
        iteration: steps done, those of the solves it started from included.
        x: the resources' copy; unused at the start.
        primal: ||x - z|| relative to the larger of ||x|| and ||z||.
        dual: ||z - previous z|| relative to ||v||.
        total: sums of z and of v since the last restart, and how many they are of.
    """

    z: Floats
    v: Floats
    rho: float
    iteration: int = 0
    x: Floats | None = None
    primal: float = np.inf
    dual: float = np.inf
    total: tuple[Floats, Floats, int] | None = None

    @property
    def residual(self) -> float:
        """The larger of the two normalised residuals: small where x and z agree and have come to rest."""
        return max(self.primal, self.dual)

    def average(self) -> State:
        """The mean since the last restart; often much closer to the solution than the last iterate."""
        if self.total is None:
            return self
        z, v, count = self.total
        return replace(self, z=z / count, v=v / count, total=None)


def iterate(blocks: Blocks, start: State, *, relaxation: float = RELAXATION) -> Iterator[State]:
    """States after 1, 2, … iterations, without end; the caller decides when to stop.

    Residuals are compared in relative terms, because rho would otherwise depend on the units of x; and rho settles
    after a few hundred iterations, because ADMM converges for a fixed rho while one that keeps changing can stall it.
    A warm start goes on with its rho, and its restarts are as rare as they were.
    """
    z, v, rho = start.z, start.v, start.rho
    z_total, v_total, since = np.zeros_like(z), np.zeros_like(v), 0
    for done in count(1):
        x = blocks.resource_step(z - v, rho)
        mixed = relaxation * x + (1.0 - relaxation) * z
        previous, z = z, blocks.demand_step(mixed + v, rho)
        v = v + mixed - z
        z_total, v_total, since = z_total + z, v_total + v, since + 1
        primal = _norm(x - z) / max(_norm(x), _norm(z), TINY)
        dual = _norm(z - previous) / max(_norm(v), TINY)
        yield State(z, v, rho, start.iteration + done, x, primal, dual, (z_total, v_total, since))
        age = min(start.iteration, BALANCE_AT[-1]) + done
        if since >= max(RESTART_AFTER, RESTART_SHARE * age):
            z, v = z_total / since, v_total / since
            z_total, v_total, since = np.zeros_like(z), np.zeros_like(v), 0
        if age in BALANCE_AT:
            uneven = float(np.sqrt((primal + TINY) / (dual + TINY)))
            if not 1.0 / BALANCED < uneven < BALANCED:
                change = float(np.clip(uneven, 1.0 / MOST_CHANGE, MOST_CHANGE))
                rho, v, v_total = rho * change, v / change, v_total / change  # the price rho v stays


def project_simplex(point: Floats, radius: Floats | float = 1.0, *, inside: bool = False) -> Floats:
    """Nearest x >= 0 with sum `radius` along the last axis; exact, by sorting.

    Args:
        point: (..., K); an entry of -inf stays 0.
        radius: (...) sums, > 0.
        inside: whether a smaller sum will do: x >= 0 with sum at most `radius`.
    """
    falling = -np.sort(-point, axis=-1)
    excess = np.cumsum(falling, axis=-1)
    excess -= np.asarray(radius)[..., None]
    with np.errstate(invalid="ignore"):  # -inf entries
        used = (falling * np.arange(1, point.shape[-1] + 1) > excess).sum(axis=-1, keepdims=True)
    level = np.take_along_axis(excess, used - 1, axis=-1) / used
    result: Floats = np.maximum(point - (np.maximum(level, 0.0) if inside else level), 0.0)
    return result


def project_knapsack(point: Floats, weight: Floats, limit: Floats) -> Floats:
    """Nearest x >= 0 with weight·x <= limit along the last axis; exact, by sorting.

    Args:
        point: (..., K); an entry of -inf stays 0.
        weight: (K,) > 0.
        limit: (...) >= 0.
    """
    ratio = point / weight
    order = np.argsort(-ratio, axis=-1)
    falling, squares = np.take_along_axis(ratio, order, axis=-1), (weight**2)[order]
    summed = np.cumsum(np.where(np.isfinite(falling), falling, 0.0) * squares, axis=-1)
    price = (summed - np.asarray(limit)[..., None]) / np.cumsum(squares, axis=-1)
    last = np.maximum((falling > price).sum(axis=-1, keepdims=True) - 1, 0)
    result: Floats = np.maximum(point - np.maximum(np.take_along_axis(price, last, axis=-1), 0.0) * weight, 0.0)
    return result


def nonnegative_quadratic(gram: Floats, linear: Floats, start: Floats) -> Floats:
    """argmin over m >= 0 of m·G m / 2 - linear·m for every last index: exact for one row and two, else by descent.

    Args:
        gram: (K, K, M) positive semidefinite for each of M problems.
        linear: (K, M); -inf keeps a coordinate at 0.
        start: (K, M) a guess, >= 0.
    """
    diagonal = np.maximum(np.einsum("kkm->km", gram), 1e-12)
    alone: Floats = np.maximum(linear / diagonal, 0.0)
    if len(linear) == 1:
        return alone
    if len(linear) == 2:
        return _pair(gram, linear, alone)
    result = start.copy()
    for _ in range(SWEEPS):
        before = result.copy()
        for k in range(len(linear)):
            slope = linear[k] - (gram[k] * result).sum(axis=0)
            result[k] = np.maximum(result[k] + slope / diagonal[k], 0.0)
        if np.abs(result - before).max() <= SETTLED * result.max():
            break
    return result


def _pair(gram: Floats, linear: Floats, alone: Floats) -> Floats:
    """Two multipliers: both where both are positive, else the one under which the other is not needed."""
    (a, b), c = (gram[0, 0], gram[1, 1]), gram[0, 1]
    finite = np.where(np.isfinite(linear), linear, 0.0)
    both = np.stack([b * finite[0] - c * finite[1], a * finite[1] - c * finite[0]])
    determinant = a * b - c**2
    use_both = (both >= 0).all(axis=0) & np.isfinite(linear).all(axis=0) & (determinant > 1e-12 * a * b)
    first = linear[1] <= c * alone[0]
    one = np.stack([np.where(first, alone[0], 0.0), np.where(first, 0.0, alone[1])])
    result: Floats = np.where(use_both, both / np.where(use_both, determinant, 1.0), one)
    return result


def _norm(array: Floats) -> float:
    return float(np.linalg.norm(array))
