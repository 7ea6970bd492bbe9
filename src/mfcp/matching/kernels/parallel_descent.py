# mypy: allow-untyped-defs, allow-untyped-decorators
"""The steps of `parallel.solve_locally` for the CPU, compiled: one starting plan after another.

The modules `parallel` and `mirror_descent` of `mfcp.matching.relaxed` define the algorithm; tests hold these kernels to
their results. The kernels do not hold the interpreter's lock.
"""

from __future__ import annotations

import math
from collections import namedtuple

import numpy as np

from mfcp.compiling import internal, kernel, prepare
from mfcp.matching.kernels.copying import copy_rows

prepare(__name__)

_TINY = 1e-300

# One round: times and reliabilities (M, N), gamma, the weights of the objective, (M,) parameters of the speed-up.
_Round = namedtuple("_Round", ["T", "A", "gamma", "beta", "lam", "tau", "floor", "decay"])

# Aggregates of a plan, each (M,): summed times, numbers of tasks, and the weights of the smooth maximum.
_Sums = namedtuple("_Sums", ["load", "count", "p"])


@internal
def _aggregate(T, A, X, gamma, load, count):
    """Loads and numbers of tasks of the clusters in place; returns the mean reliability minus gamma."""
    M, N = T.shape
    reliable = 0.0
    for i in range(M):
        load[i] = count[i] = 0.0
        for j in range(N):
            load[i] += T[i, j] * X[i, j]
            count[i] += X[i, j]
            reliable += A[i, j] * X[i, j]
    return reliable / N - gamma


@internal
def _curve(floor, decay, n):
    """Factor, slope and bend of the speed-up for n tasks at once."""
    fall = math.exp(-max(n - 1.0, 0.0) / decay)
    if n <= 1.0:
        return floor + (1.0 - floor) * fall, 0.0, 0.0
    return floor + (1.0 - floor) * fall, (floor - 1.0) / decay * fall, (1.0 - floor) / decay**2 * fall


@internal
def _softmax(z, p):
    """p := softmax(z); returns log Σ exp z."""
    top, total = z[0], 0.0
    for i in range(1, len(z)):
        top = max(top, z[i])
    for i in range(len(z)):
        p[i] = math.exp(z[i] - top)
        total += p[i]
    for i in range(len(z)):
        p[i] /= total
    return top + math.log(total)


@internal
def _objective(given, X, sums):
    """`objective.relaxed_objective` under parallel execution."""
    T, A, beta, lam, tau, floor, decay = given.T, given.A, given.beta, given.lam, given.tau, given.floor, given.decay
    load, count, p = sums.load, sums.count, sums.p
    g = _aggregate(T, A, X, given.gamma, load, count)
    if not g > 0.0:
        return np.inf
    M, N = T.shape
    for i in range(M):
        load[i] *= beta * _curve(floor[i], decay[i], count[i])[0]
    entropy = 0.0
    for i in range(M):
        for j in range(N):
            if X[i, j] > 0.0:
                entropy += X[i, j] * math.log(X[i, j])
    return _softmax(load, p) / beta - lam * math.log(g) + tau * entropy


@internal
def _slope(given, X, sums, V):
    """`mirror_descent.objective_slope`: the gradient into V; returns the smoothness relative to the entropy."""
    T, A, beta, lam, tau, floor, decay = given.T, given.A, given.beta, given.lam, given.tau, given.floor, given.decay
    load, count, p = sums.load, sums.count, sums.p
    M, N = T.shape
    g = _aggregate(T, A, X, given.gamma, load, count)
    z = np.empty(M)
    for i in range(M):
        z[i] = beta * _curve(floor[i], decay[i], count[i])[0] * load[i]
    _softmax(z, p)
    q = lam / g
    by_load, by_gap = 0.0, 0.0
    for i in range(M):
        factor, slope, _ = _curve(floor[i], decay[i], count[i])
        square = 0.0
        for j in range(N):
            effort = factor * T[i, j] + slope * load[i]
            V[i, j] = p[i] * effort - q / N * A[i, j] + tau * math.log(max(X[i, j], _TINY))
            square += effort * effort * X[i, j]
        by_load = max(by_load, beta * p[i] * square)
    for j in range(N):
        best = A[0, j]
        for i in range(1, M):
            best = max(best, A[i, j])
        for i in range(M):
            gap = (best - A[i, j]) / N
            by_gap += gap * gap * X[i, j]
    return by_load + q * q / lam * by_gap


@internal
def _residual(X, V, tau):
    """`parallel._stationarity`, its size."""
    M, N = X.shape
    size, largest = 0.0, 0.0
    for j in range(N):
        mean = 0.0
        for i in range(M):
            mean += X[i, j] * V[i, j]
        for i in range(M):
            if X[i, j] > _TINY:
                size = max(size, abs(V[i, j]))
                largest = max(largest, X[i, j] * abs(V[i, j] - mean))
    return largest / (size + tau)


@internal
def _moved(X, V, eta, mask, out):
    """`mirror_descent._moved`."""
    M, N = X.shape
    z, p = np.empty(M), np.empty(M)
    for j in range(N):
        for i in range(M):
            z[i] = math.log(max(X[i, j], _TINY)) - eta * V[i, j]
            if mask.size and mask[i, j]:
                z[i] = -np.inf
        _softmax(z, p)
        for i in range(M):
            out[i, j] = p[i]


@internal
def _curvature(given, g, sums, C):
    """`parallel._curvature` into C (2 M + 1, 2 M + 1)."""
    beta, lam, floor, decay = given.beta, given.lam, given.floor, given.decay
    load, count, p = sums.load, sums.count, sums.p
    M = len(load)
    pull = np.empty(2 * M)
    for i in range(M):
        factor, slope, _ = _curve(floor[i], decay[i], count[i])
        pull[i], pull[M + i] = p[i] * factor, p[i] * slope * load[i]
    C[:] = 0.0
    for k in range(2 * M):
        for m in range(2 * M):
            C[k, m] = -beta * pull[k] * pull[m]
    for i in range(M):
        factor, slope, bend = _curve(floor[i], decay[i], count[i])
        cross = beta * p[i] * factor * slope * load[i] + p[i] * slope
        C[i, i] += beta * p[i] * factor * factor
        C[i, M + i] += cross
        C[M + i, i] += cross
        C[M + i, M + i] += beta * p[i] * (slope * load[i]) ** 2 + p[i] * bend * load[i]
    C[2 * M, 2 * M] = lam / (g * g)


@internal
def _solve(H, b):
    """b := H⁻¹ b by elimination with row pivots; not finite where H is singular."""
    n = len(b)
    for k in range(n):
        row = k
        for i in range(k + 1, n):
            if abs(H[i, k]) > abs(H[row, k]):
                row = i
        if row != k:
            for m in range(k, n):
                H[k, m], H[row, m] = H[row, m], H[k, m]
            b[k], b[row] = b[row], b[k]
        for i in range(k + 1, n):
            ratio = H[i, k] / H[k, k]
            for m in range(k + 1, n):
                H[i, m] -= ratio * H[k, m]
            b[i] -= ratio * b[k]
    for k in range(n - 1, -1, -1):
        for m in range(k + 1, n):
            b[k] -= H[k, m] * b[m]
        b[k] /= H[k, k]


@internal
def _response(T, A, X, tau, V, K, force):
    """K (2 M + 1, 2 M + 1) and force: aggregates of the centred responses to the aggregates and to V."""
    M, N = T.shape
    K[:] = 0.0
    force[:] = 0.0
    for j in range(N):
        total, reliable, push = 0.0, 0.0, 0.0
        for i in range(M):
            total += X[i, j]
            reliable += X[i, j] * A[i, j]
            push += X[i, j] * V[i, j]
        for i in range(M):
            w, t = X[i, j] / tau, T[i, j]
            a, v = (A[i, j] - reliable / total) / N, V[i, j] - push / total
            force[i] += w * t * v
            force[M + i] += w * v
            force[2 * M] += w * A[i, j] / N * v
            K[i, 2 * M] += w * t * a
            K[M + i, 2 * M] += w * a
            K[2 * M, 2 * M] += w * a * a
            for k in range(M):
                one = w * ((1.0 if i == k else 0.0) - X[k, j] / total)
                K[i, k] += one * t * T[k, j]
                K[i, M + k] += one * t
                K[M + i, M + k] += one
    for i in range(M):
        K[2 * M, i], K[2 * M, M + i] = K[i, 2 * M], K[M + i, 2 * M]
        for k in range(M):
            K[M + k, i] = K[i, M + k]


@internal
def _newton(T, A, X, tau, V, C, K, force, change):
    """`parallel._newton` for the curvature C, K and force of `_response`."""
    M, N = T.shape
    H, weights = C @ K, -(C @ force)
    for k in range(2 * M + 1):
        H[k, k] += 1.0
    _solve(H, weights)
    for j in range(N):
        total, mean = 0.0, 0.0
        for i in range(M):
            change[i, j] = V[i, j] + weights[i] * T[i, j] + weights[M + i] + weights[2 * M] * A[i, j] / N
            total += X[i, j]
            mean += X[i, j] * change[i, j]
        for i in range(M):
            change[i, j] = -X[i, j] / tau * (change[i, j] - mean / total)


@internal
def _towards(at, change, alpha, out):
    """out := the plan `at` moved by alpha · change, no entry below a tenth of what it was, columns on the simplex."""
    M, N = at.shape
    for j in range(N):
        total = 0.0
        for i in range(M):
            out[i, j] = max(at[i, j] + alpha * change[i, j], 0.1 * at[i, j])
            total += out[i, j]
        for i in range(M):
            out[i, j] /= total


# Over 10 positional parameters: a signature of plain arrays compiles the kernel when its module is imported.
@kernel(
    "void(f8[:,:,::1], f8[:,:,::1], b1[:,:,::1], f8[::1], f8[::1], f8[::1], f8[::1], f8[::1], f8[::1], i8, f8, i8, i8,"
    " f8[:,:,::1], i8[::1], f8[::1], f8[::1])",
)
def descend_range(
    T, A, forbidden, gamma, beta, lam, tau, floor, decay, max_steps, tolerance, first, last, X, steps, residual, value
):
    """The steps of `parallel.solve_locally` from the plans X first … last - 1, in place, with steps, residual, value.

    X (R · B, M, N) holds starts of the same B rounds one after another; `forbidden` is empty where there is no mask.
    """
    B, M, N = T.shape
    V, best, trial, change = np.empty((M, N)), np.empty((M, N)), np.empty((M, N)), np.empty((M, N))
    sums = _Sums(np.empty(M), np.empty(M), np.empty(M))
    C, K, force = np.empty((2 * M + 1, 2 * M + 1)), np.empty((2 * M + 1, 2 * M + 1)), np.empty(2 * M + 1)
    no_mask = np.empty((0, 0), np.bool_)
    for r in range(first, last):
        b, at = r % B, X[r]
        given = _Round(T[b], A[b], gamma[b], beta[b], lam[b], tau[b], floor, decay)
        mask = forbidden[b] if forbidden.size else no_mask
        steps[r] = 0
        while True:
            curvature = _slope(given, at, sums, V)
            residual[r] = _residual(at, V, tau[b])
            if not residual[r] > tolerance or steps[r] == max_steps:
                break
            steps[r] += 1
            g = _aggregate(given.T, given.A, at, gamma[b], sums.load, sums.count)
            _curvature(given, g, sums, C)
            _response(given.T, given.A, at, tau[b], V, K, force)
            before = _objective(given, at, sums)
            eta = 1.0 / (tau[b] + curvature)
            for _ in range(60):  # `mirror_descent.mirror_step`
                _moved(at, V, eta, mask, best)
                reached = _objective(given, best, sums)
                if reached <= before + 1e-12 * abs(before):
                    break
                eta /= 2.0
            least = reached
            rounding = 1e-12 * abs(least)
            for convex in (True, False):
                if convex:
                    if not np.isfinite(C.sum()):
                        continue
                    size, basis = np.linalg.eigh(C)
                    positive = (basis * np.maximum(size, 0.0)) @ basis.T
                    _newton(given.T, given.A, at, tau[b], V, positive, K, force, change)
                else:
                    _newton(given.T, given.A, at, tau[b], V, C, K, force, change)
                if not (V * change).sum() < 0.0:
                    continue
                alpha = 1.0
                for _ in range(20):  # `parallel._search`
                    _towards(at, change, alpha, trial)
                    reached = _objective(given, trial, sums)
                    if reached <= before + 1e-12 * abs(before):
                        break
                    alpha /= 2.0
                if reached <= least + rounding:
                    copy_rows(trial, best)
                    least = reached
            copy_rows(best, at)
        value[r] = _objective(given, at, sums)
