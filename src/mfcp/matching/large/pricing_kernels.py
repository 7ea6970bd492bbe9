# mypy: allow-untyped-defs, allow-untyped-decorators
"""Compiled loops of `pricing.py` over the tasks of one shard; they hold no Python lock.

Letters as there: task j has W candidates k, cluster c_jk, coefficients b_jkr on the B rows of its cluster and -a_jk on
the reliability row, which is the last of D = M B + 1. Candidates that a task lacks come last, with cluster -1. T may be
float32 or float64; every sum is float64.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfcp.arrays import Floats
from mfcp.compiling import internal, kernel

_FAR = 10.0  # a product x s that is off by more than this, in units of mu, is not worth the distortion
BLOCK = 256  # tasks priced together: a tile of all their clusters stays in the cache

FAINT = 1e-8  # product of two candidates' shares up to which their part of the Newton matrix is left out


class Costs(NamedTuple):
    """What makes up the reduced costs of some consecutive tasks.

    Attributes:
        T, A: (M, N) of the whole round.
        begin, end: the n tasks that are priced.
        extra: (M, n) what rows and linear costs add, or (0, 0) for nothing.
        p: (M,) price of a second on each cluster.
        q: price of reliability.
        cap: (M,) seconds above which a task may not run on a cluster.
        noise: (L + `BLOCK` + 1,) relative increase of the reduced costs by which candidates are chosen, L a power of
            two: tasks that are alike must not all choose alike.
    """

    T: Floats
    A: Floats
    begin: int
    end: int
    extra: Floats
    p: Floats
    q: float
    cap: Floats
    noise: Floats


class Chosen(NamedTuple):
    """What pricing fills in for the n tasks.

    Attributes:
        cluster, time, reliability: (n, W) candidates, cheapest first.
        least: (n,) least reduced cost of any cluster.
    """

    cluster: NDArray[np.int32]
    time: Floats
    reliability: Floats
    least: Floats


@internal
def _keep_used(old, used, first, cluster, keys):
    """Put the candidates that must stay in front, whatever they cost; returns how many each task has, (`BLOCK`,)."""
    kept = np.zeros(BLOCK, np.int64)
    for k in range(min(BLOCK, len(cluster) - first)):
        j = first + k
        for s in range(old.shape[1]):
            if used[j, s] and kept[k] < keys.shape[1]:
                cluster[j, kept[k]] = old[j, s]
                keys[k, kept[k]] = -np.inf
                kept[k] += 1
    return kept


@internal
def _insert(cluster, keys, k, j, kept, count, i, value):
    """Put cluster i among task j's cheapest, unless it stays anyway; returns how many candidates the task then has."""
    for s in range(kept):
        if cluster[j, s] == i:
            return count
    if count < keys.shape[1]:
        count += 1
    s = count - 1
    while s > 0 and keys[k, s - 1] > value:
        keys[k, s] = keys[k, s - 1]
        cluster[j, s] = cluster[j, s - 1]
        s -= 1
    keys[k, s] = value
    cluster[j, s] = i
    return count


@internal
def _complete(costs, chosen, spread, j, count):
    """Add `spread` clusters in turn to task j's `count` candidates, and look up the time and reliability of each."""
    T, A, column, cluster = costs.T, costs.A, costs.begin + j, chosen.cluster
    M = len(T)
    for s in range(spread):
        i = (j + s * (M // spread)) % M
        known = not T[i, column] <= costs.cap[i]
        for r in range(count):
            known = known or cluster[j, r] == i
        if not known:
            cluster[j, count] = i
            count += 1
    for s in range(cluster.shape[1]):
        if s < count:
            chosen.time[j, s] = T[cluster[j, s], column]
            chosen.reliability[j, s] = A[cluster[j, s], column]
        else:
            cluster[j, s], chosen.time[j, s], chosen.reliability[j, s] = -1, np.inf, 0.0


@kernel
def price_tasks(costs, spread, old, used, chosen):
    """Candidates of every task, cheapest first, and the least reduced cost p_i t_ij + extra_ij - q a_ij of any cluster.

    Args:
        costs: see `Costs`.
        spread: candidates that are clusters in turn, whatever they cost.
        old, used: (n, V) candidates that must stay where `used`; V may be 0.
        chosen: see `Chosen`; filled.
    """
    T, A, begin, n, q = costs.T, costs.A, costs.begin, costs.end - costs.begin, costs.q
    extra, p, cap, noise, cluster = costs.extra, costs.p, costs.cap, costs.noise, chosen.cluster
    M, W = len(T), cluster.shape[1] - spread
    wrap = len(noise) - BLOCK - 1
    keys = np.empty((BLOCK, W))
    key, worst, lowest = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    for first in range(0, n, BLOCK):
        width = min(BLOCK, n - first)
        last = first + width
        keys[:] = np.inf
        lowest[:] = np.inf
        kept = _keep_used(old, used, first, cluster, keys)
        count = kept.copy()
        worst[:] = keys[:, W - 1]
        for i in range(M):
            offset = (i * 1031 + first) & wrap
            # Slices from 0 on: only loops over such become vector instructions.
            seconds, gains = T[i, begin + first : begin + last], A[i, begin + first : begin + last]
            raised, price, most = noise[offset : offset + width], p[i], cap[i]
            for k in range(width):
                key[k] = price * seconds[k] - q * gains[k]
            if len(extra):
                for k in range(width):
                    key[k] += extra[i, first + k]
            for k in range(width):
                v = key[k] if seconds[k] <= most else np.inf
                lowest[k] = v if v < lowest[k] else lowest[k]
                key[k] = v + (v + q) * raised[k]
            for k in range(width):
                if key[k] < worst[k]:
                    count[k] = _insert(cluster, keys, k, first + k, kept[k], count[k], i, key[k])
                    worst[k] = keys[k, W - 1]
        chosen.least[first:last] = lowest[:width]
        for k in range(width):
            _complete(costs, chosen, spread, first + k, count[k])


@kernel
def centre(cluster, b, a, cost, mass, prices, mu, x, s, u):
    """Start on the central path of every task by itself: s = reduced cost - u, x = mu / s, columns of x sum to mass.

    Returns:
        (D,) loads Σ b x.
    """
    n, W, B = b.shape
    load = np.zeros(len(prices))
    q = prices[-1]
    for j in range(n):
        lowest = np.inf
        for k in range(W):
            if cluster[j, k] < 0:
                s[j, k] = np.inf
                continue
            s[j, k] = cost[j, k] - q * a[j, k]
            for r in range(B):
                s[j, k] += prices[cluster[j, k] * B + r] * b[j, k, r]
            lowest = min(lowest, s[j, k])
        z = mu / mass[j]  # below the root of Σ mu / (s - lowest + z) = mass: Newton climbs to it
        for _ in range(30):
            value, slope = -mass[j], 0.0
            for k in range(W):
                y = mu / (s[j, k] - lowest + z)
                value += y
                slope += y * y / mu
            z += value / slope
            if value <= 1e-10 * mass[j]:
                break
        u[j] = lowest - z
        for k in range(W):
            s[j, k] -= u[j]
            x[j, k] = mu / s[j, k]
            if cluster[j, k] >= 0:
                load[-1] -= x[j, k] * a[j, k]
                for r in range(B):
                    load[cluster[j, k] * B + r] += x[j, k] * b[j, k, r]
    return load


@kernel
def normal(cluster, b, a, cost, mass, x, s, H, force, sums):
    """Add this shard's part of the Newton system: Σ_j b_j (diag θ - θ θᵀ / Σθ) b_jᵀ with θ = x / s.

    H (D, D) gets the lower triangle only. Pairs whose product of shares is faint are left out: the scattered writes
    are most of the time, and the diagonal, which is whole, keeps the matrix positive definite. force (2, D):
    Σ_j mass_j times the θ-mean of b, and the loads Σ b x. sums (2,): Σ x s and Σ cost x.
    """
    n, W, B = b.shape
    D = len(H)
    theta, part = np.empty(W), np.empty(W)
    mean = np.empty((W, B))
    for j in range(n):
        total, centre_a = 0.0, 0.0
        for k in range(W):
            theta[k] = x[j, k] / s[j, k]
            total += theta[k]
            centre_a += theta[k] * a[j, k]
        centre_a /= total
        force[0, D - 1] -= mass[j] * centre_a
        for k in range(W):
            c = cluster[j, k]
            if c < 0:
                break
            share = part[k] = theta[k] / total
            centred = a[j, k] - centre_a
            sums[0] += x[j, k] * s[j, k]
            sums[1] += x[j, k] * cost[j, k]
            force[1, D - 1] -= x[j, k] * a[j, k]
            H[D - 1, D - 1] += theta[k] * centred * centred
            for r in range(B):
                at = c * B + r
                mean[k, r] = share * b[j, k, r]
                force[0, at] += mass[j] * mean[k, r]
                force[1, at] += x[j, k] * b[j, k, r]
                H[D - 1, at] -= theta[k] * b[j, k, r] * centred
                for r2 in range(r + 1):
                    H[at, c * B + r2] += theta[k] * (1.0 - share) * b[j, k, r] * b[j, k, r2]
            if B == 1:
                for k2 in range(k):
                    if share * part[k2] > FAINT:
                        c2 = cluster[j, k2]
                        H[max(c, c2), min(c, c2)] -= theta[k] * b[j, k, 0] * mean[k2, 0]
            else:
                for k2 in range(k):
                    if share * part[k2] <= FAINT:
                        continue
                    for r in range(B):
                        for r2 in range(B):
                            at, at2 = c * B + r, cluster[j, k2] * B + r2
                            H[max(at, at2), min(at, at2)] -= theta[k] * b[j, k, r] * mean[k2, r2]


# Over 10 positional parameters: the arrays of a tuple would be reference-counted once a task.
@kernel(inline="always")
def _direction(j, cluster, b, a, mass, x, s, push, step, dx, ds):
    """Fill dx and ds of task j for a step in the prices, and return du; `push` is added to x."""
    W, B = b.shape[1:]
    total, balance = 0.0, mass[j]
    for k in range(W):
        c = cluster[j, k]
        if c < 0:
            dx[k], ds[k] = 0.0, 0.0
            continue
        ds[k] = -a[j, k] * step[-1]
        for r in range(B):
            ds[k] += b[j, k, r] * step[c * B + r]
        theta = x[j, k] / s[j, k]
        total += theta
        balance += theta * ds[k] - push[j, k]
    du = balance / total
    for k in range(W):
        if cluster[j, k] >= 0:
            ds[k] -= du
            dx[k] = push[j, k] - x[j, k] - x[j, k] / s[j, k] * ds[k]
    return du


@kernel
def reach(cluster, b, a, mass, x, s, push, step):
    """(6,) of the direction to `step`: primal and dual step to the border, Σ x s, Σ x ds, Σ s dx, Σ dx ds."""
    n, W = x.shape
    dx, ds = np.empty(W), np.empty(W)
    primal, dual = 0.0, 0.0  # largest relative decrease
    sums = np.zeros(6)
    for j in range(n):
        _direction(j, cluster, b, a, mass, x, s, push, step, dx, ds)
        for k in range(W):
            if cluster[j, k] >= 0:
                primal = max(primal, -dx[k] / x[j, k])
                dual = max(dual, -ds[k] / s[j, k])
                sums[2] += x[j, k] * s[j, k]
                sums[3] += x[j, k] * ds[k]
                sums[4] += s[j, k] * dx[k]
                sums[5] += dx[k] * ds[k]
    sums[0], sums[1] = 1.0 / primal, 1.0 / dual
    return sums


@kernel
def correct(cluster, b, a, mass, x, s, push, step, mu):
    """Set `push` so that products x s become mu, given what the direction to `step` alone would make of them.

    Returns:
        (D,) what that adds to the force.
    """
    n, W, B = b.shape
    dx, ds = np.empty(W), np.empty(W)
    D = len(step)
    added = np.zeros(D)
    for j in range(n):
        _direction(j, cluster, b, a, mass, x, s, push, step, dx, ds)
        total, pushed = 0.0, 0.0
        for k in range(W):
            if cluster[j, k] >= 0:
                product = (x[j, k] + dx[k]) * (s[j, k] + ds[k])
                push[j, k] = min(max(mu - product, -mu), _FAR * mu) / s[j, k]
                total += x[j, k] / s[j, k]
                pushed += push[j, k]
        for k in range(W):
            c = cluster[j, k]
            if c >= 0:
                f = push[j, k] - x[j, k] / s[j, k] / total * pushed
                added[D - 1] -= a[j, k] * f
                for r in range(B):
                    added[c * B + r] += b[j, k, r] * f
    return added


# Over 10 positional parameters: those of `_direction`, and the two steps.
@kernel
def move(cluster, b, a, mass, x, s, u, push, step, primal, dual):
    """Go along the direction to `step`; `push` is zero afterwards."""
    n, W = x.shape
    dx, ds = np.empty(W), np.empty(W)
    for j in range(n):
        u[j] += dual * _direction(j, cluster, b, a, mass, x, s, push, step, dx, ds)
        for k in range(W):
            x[j, k] += primal * dx[k]
            s[j, k] += dual * ds[k]
            push[j, k] = 0.0
