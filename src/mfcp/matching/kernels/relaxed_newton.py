# mypy: allow-untyped-defs, allow-untyped-decorators, disable-error-code="call-arg, var-annotated"
"""`dual_newton.solve_rounds` and `argmin.respond` for the CPU, compiled: one round after another, no temporaries.

The modules `prices`, `interior_point` and `dual_newton` of `mfcp.matching.relaxed` define the algorithm; the kernels
follow them line by line, and every result is tested against them. A round needs three arrays of its own shape besides
T, A and X. Values per task are kept for one block of tasks at a time. The kernels do not hold the interpreter's lock,
so threads can share the rounds.
"""

from __future__ import annotations

import math
from collections import namedtuple

import numpy as np
from numba import types
from numba.extending import intrinsic

from mfcp.compiling import inner, kernel, prepare
from mfcp.matching.kernels.copying import copy_row, copy_rows
from mfcp.matching.kernels.tuning import (
    ATTEMPTS,
    CENTRING,
    DUAL_STEPS,
    FAINT,
    INSIDE,
    LARGEST_STEP,
    LONG,
    LOWEST,
    NEAR,
    PATIENCE,
    POLISH_STEPS,
    REFINEMENTS,
    USED,
)

prepare(__name__)

# Sums may be reordered, so that they vectorise; NaN and infinity keep their meaning.
_LOOSE = {"reassoc", "contract", "nsz", "arcp"}
# For code whose order of sums matters. It has to be said: numba gives a function the flags of its first caller.
_STRICT = {"contract"}
# Tasks at a time: their temporaries stay in the nearest cache. Unsigned, as are the indices made from it: numba would
# otherwise ask at every entry whether the index counts from the end, and the loop would not vectorise.
_BLOCK = np.uint64(256)

# Temporaries of one Newton step, allocated once per call: those of a block of tasks, then those of the M + 1 prices.
_Work = namedtuple(
    "_Work", ["TW", "mean", "share", "root", "H", "S", "edge", "y", "sums", "prices", "D", "force", "p", "w"]
)


# One round: times, reliabilities, (N,) best reliability of each task, mask (empty where there is none), distance of
# gamma to the edge, and the weights of the objective.
_Round = namedtuple("_Round", ["T", "A", "best", "forbidden", "room", "beta", "lam", "tau"])

# Arrays of a round's shape: slacks, weights and gradients of its entries; logarithms of prices, and longest times.
_Space = namedtuple("_Space", ["s", "W", "V", "log_p", "longest"])


@intrinsic
def _as_bits(typing, x):
    """The 64 bits of a double."""
    return types.int64(types.float64), _bitcast


@intrinsic
def _as_double(typing, bits):
    """The double of 64 bits."""
    return types.float64(types.int64), _bitcast


def _bitcast(context, builder, signature, args):
    return builder.bitcast(args[0], context.get_value_type(signature.return_type))


# ln 2 in two parts; the first has few bits, so that a multiple of it is exact.
_LN2, _LN2_REST = 0.6931471803691238, 1.9082149292705877e-10
_HALF_ROOT = 0x3FE6A09E667F3BCD  # bits of sqrt(1/2)


@inner(fastmath=_STRICT)
def _log(x):
    """log x to the last digit or two for x >= 1e-300; unlike math.log no call, so loops around it vectorise.

    x = 2^k m with m between sqrt(1/2) and sqrt(2), and log m = 2 artanh((m - 1) / (m + 1)) by its series.
    """
    bits = _as_bits(x)
    k = (bits - _HALF_ROOT) >> 52
    f = _as_double(bits - (k << 52)) - 1.0
    s = f / (2.0 + f)
    z = s * s
    tail = 2 / 11 + z * (2 / 13 + z * (2 / 15 + z * (2 / 17 + z * (2 / 19 + z * (2 / 21)))))
    series = z * (2 / 3 + z * (2 / 5 + z * (2 / 7 + z * (2 / 9 + z * tail))))
    return k * _LN2 + (f - (s * (f - series) - k * _LN2_REST))


@inner(fastmath=_STRICT)
def _exp(x):
    """exp x to the last digit or two for x <= 0, 0 where it is below 1e-300; see `_log`."""
    k = np.floor(x * (1 / math.log(2.0)) + 0.5)
    r = (x - k * _LN2) - k * _LN2_REST
    tail = 1 / 40320 + r * (1 / 362880 + r * (1 / 3628800 + r * (1 / 39916800 + r * (1 / 479001600 + r / 6227020800))))
    tail = 1 / 24 + r * (1 / 120 + r * (1 / 720 + r * (1 / 5040 + r * tail)))
    series = 1.0 + r * (1.0 + r * (1 / 2 + r * (1 / 6 + r * tail)))
    bits = (np.int64(max(k, -1000.0)) + 1023) << 52
    return series * _as_double(bits) if x > -690.0 else 0.0


@inner
def _larger(bits, value):
    """The larger of the double with these bits, >= 0, and `value`, as bits: such a maximum over a loop vectorises.

    Doubles from 0 on are ordered as their bits are, and NaN comes last: it is kept.
    """
    other = _as_bits(value)
    return other if other > bits else bits


@kernel
def _work(M, N):
    n = min(N, np.int64(_BLOCK))
    return _Work(
        np.empty((M, n)), np.empty(n), np.empty(n), np.empty(n), np.empty((M + 1, M + 1)), np.empty(M + 1),
        np.empty(M + 1), np.empty(M + 1), np.empty(M + 1), np.empty(M + 1), np.empty(M + 1), np.empty(M + 1),
        np.empty(M), np.empty(M),
    )  # fmt: skip


@inner(fastmath=_LOOSE)
def _factor(T, A, best, W, c, work):
    """work.H := Cholesky factor of I + S K S for weights c W, S = sqrt(work.D); work.edge: see `_simplex_solve`."""
    M, N = T.shape
    TW, mean, share, root, H, S = work.TW, work.mean, work.share, work.root, work.H, work.S
    D, edge = work.D, work.edge
    H[:] = 0.0
    for low in range(np.uint64(0), np.uint64(N), _BLOCK):
        n = min(_BLOCK, np.uint64(N) - low)
        for j in range(n):
            mean[j] = share[j] = 0.0
        for i in range(M):
            for j in range(n):
                w = W[i, low + j]
                share[j] += w
                mean[j] += (best[low + j] - A[i, low + j]) * w
        for j in range(n):
            share[j] = 1.0 / share[j]
            mean[j] *= share[j]
            root[j] = math.sqrt(share[j])
        for i in range(M):
            own, cross, last = 0.0, 0.0, 0.0
            for j in range(n):
                t, w = T[i, low + j], W[i, low + j]
                tw = t * w
                TW[i, j] = tw * root[j]
                centred = best[low + j] - A[i, low + j] - mean[j]
                own += tw * t * (1.0 - w * share[j])
                cross += tw * centred
                last += w * centred * centred
            H[i, i] += own
            H[M, i] += cross
            H[M, M] += last
            for k in range(i):
                dot = 0.0
                for j in range(n):
                    dot += TW[i, j] * TW[k, j]
                H[i, k] -= dot
    H[M, M] /= N
    for i in range(M + 1):
        S[i] = math.sqrt(D[i])
        H[M, i] /= N
        for k in range(i + 1):
            H[i, k] *= c * S[i] * S[k]
        H[i, i] += 1.0
    _cholesky(H)
    for i in range(M):
        edge[i] = S[i]
    edge[M] = 0.0
    _substitute(H, edge)


@inner
def _cholesky(H):
    """H := its Cholesky factor below the diagonal, the inverse of the factor's entries on it."""
    n = len(H)
    for k in range(n):
        pivot = H[k, k]
        for m in range(k):
            pivot -= H[k, m] * H[k, m]
        inverse = 1.0 / math.sqrt(pivot)
        H[k, k] = inverse
        for i in range(k + 1, n):
            value = H[i, k]
            for m in range(k):
                value -= H[i, m] * H[k, m]
            H[i, k] = value * inverse


@inner
def _substitute(L, b):
    n = len(b)
    for i in range(n):
        value = b[i]
        for k in range(i):
            value -= L[i, k] * b[k]
        b[i] = value * L[i, i]
    for i in range(n - 1, -1, -1):
        value = b[i]
        for k in range(i + 1, n):
            value -= L[k, i] * b[k]
        b[i] = value * L[i, i]


@inner
def _simplex_solve(work):
    """`prices._simplex_solve` for the force in work.y, in place; work.edge is its `e`."""
    y, e, S = work.y, work.edge, work.S
    M = len(S) - 1
    for i in range(M + 1):
        y[i] *= S[i]
    _substitute(work.H, y)
    top, bottom = 0.0, 0.0
    for i in range(M):
        top += S[i] * y[i]
        bottom += S[i] * e[i]
    theta = top / bottom
    for i in range(M + 1):
        y[i] = S[i] * (y[i] - theta * e[i])


@inner(fastmath=_LOOSE)
def _respond(T, A, best, W, c, V, work, store):
    """work.sums := loads and missing reliability of the response to gradient V and work.prices; V := it, if `store`."""
    M, N = T.shape
    mean, total, sums, prices = work.mean, work.share, work.sums, work.prices
    q = prices[M] / N
    for i in range(M + 1):
        sums[i] = 0.0
    for low in range(np.uint64(0), np.uint64(N), _BLOCK):
        n = min(_BLOCK, np.uint64(N) - low)
        for j in range(n):
            mean[j] = total[j] = 0.0
        for i in range(M):
            p = prices[i]
            for j in range(n):
                w = W[i, low + j]
                mean[j] += w * (V[i, low + j] + T[i, low + j] * p + (best[low + j] - A[i, low + j]) * q)
                total[j] += w
        for j in range(n):
            mean[j] /= total[j]
        for i in range(M):
            p = prices[i]
            load, short = 0.0, 0.0
            for j in range(n):
                gap = best[low + j] - A[i, low + j]
                change = c * W[i, low + j] * (mean[j] - V[i, low + j] - T[i, low + j] * p - gap * q)
                load += T[i, low + j] * change
                short += gap * change
                if store:
                    V[i, low + j] = change
            sums[i] += load
            sums[M] += short
    sums[M] /= N


@inner
def _newton(T, A, best, W, c, V, refinements, work):
    """`prices.newton_step` for weights c W: V, the gradient, becomes dX; the price changes are in work.prices."""
    _factor(T, A, best, W, c, work)
    prices, y, sums, D, force = work.prices, work.y, work.sums, work.D, work.force
    for i in range(len(prices)):
        prices[i] = 0.0
    for _ in range(1 + refinements):
        _respond(T, A, best, W, c, V, work, False)
        for i in range(len(y)):
            y[i] = sums[i] + force[i] - prices[i] / D[i]
        _simplex_solve(work)
        for i in range(len(y)):
            prices[i] += y[i]
    _respond(T, A, best, W, c, V, work, True)


@inner
def _share(T, forbidden, by_speed, X):
    """`Rounds.shared`."""
    M, N = T.shape
    for j in range(N):
        longest, total = 0.0, 0.0
        for i in range(M):
            longest = max(longest, T[i, j])
        for i in range(M):
            share = 1.0 / max(T[i, j], 1e-6 * longest, 1e-300) if by_speed else 1.0
            if forbidden.size and forbidden[i, j]:
                share = 0.0
            X[i, j] = share
            total += share
        for i in range(M):
            X[i, j] /= total


@inner(fastmath=_LOOSE)
def _sums(T, A, best, X, sums):
    M, N = T.shape
    short = 0.0
    for i in range(M):
        load = 0.0
        for j in range(N):
            load += T[i, j] * X[i, j]
            short += (best[j] - A[i, j]) * X[i, j]
        sums[i] = load
    sums[M] = short / N


@inner
def _softmax_load(sums, beta, p):
    M = len(p)
    top = sums[0]
    for i in range(1, M):
        top = max(top, sums[i])
    total = 0.0
    for i in range(M):
        p[i] = math.exp(beta * (sums[i] - top))
        total += p[i]
    for i in range(M):
        p[i] /= total


@inner
def _lower_prices(T, A, best, beta, X, work):
    """Lower prices that lie far above those which the loads of the plan X imply."""
    _sums(T, A, best, X, work.sums)
    _softmax_load(work.sums, beta, work.w)
    for i in range(len(work.p)):
        if work.w[i] < 0.1 * work.p[i]:
            work.p[i] = work.w[i]


# Over 60 lines: one step is three passes over the entries that share a dozen scalars; apart they would be passed on.
@inner(fastmath=_LOOSE)
def _interior(given, handover, refinements, max_steps, X, space, work):
    """`interior_point.interior_point` from the plan X: prices in work.p; returns q and the steps taken."""
    T, A, best, room, beta, lam, tau = given.T, given.A, given.best, given.room, given.beta, given.lam, given.tau
    s, W, V = space.s, space.W, space.V
    M, N = T.shape
    flat_X, flat_s, flat_W, flat_V = X.reshape(M * N), s.reshape(M * N), W.reshape(M * N), V.reshape(M * N)
    prices, sums, D, force, p, w = work.prices, work.sums, work.D, work.force, work.p, work.w
    _sums(T, A, best, X, sums)
    mu = 0.0
    for i in range(M):
        mu += sums[i]
    mu = max(mu / M, 1e-300)
    slack = max(room, sums[M])
    q = (lam + mu) / slack
    p[:] = 1.0 / M
    w[:] = mu
    s[:] = mu * M / N
    scale = mu
    target = min(handover * min(tau * N, M / beta, lam), scale)
    steps = 0
    while steps < max_steps:
        steps += 1
        mu_x, mu_p = mu / N, mu / M
        for k in range(M * N):
            x = flat_X[k]
            flat_W[k] = x / (tau + flat_s[k])
            # forbidden pairs have x = W = 0: any finite gradient does
            flat_V[k] = tau * _log(x) - mu_x / x if x > 0.0 else 0.0
        short = 0.0
        for i in range(M):
            load = 0.0
            price, q_each = p[i], q / N
            for j in range(N):
                gap = best[j] - A[i, j]
                load += T[i, j] * X[i, j]
                short += gap * X[i, j]
                V[i, j] += price * T[i, j] + q_each * gap
            force[i] = load - math.log(p[i]) / beta + mu_p / p[i]
            D[i] = p[i] / (1.0 / beta + w[i])
        short /= N
        force[M] = (lam + mu) / q - room + short
        D[M] = q / slack
        _newton(T, A, best, W, 1.0, V, refinements, work)
        d_slack = room - slack - short - sums[M]
        most, least = _as_bits(0.0), _as_bits(0.0)
        for k in range(M * N):
            x = flat_X[k]
            by_x = flat_V[k] / x if x > 0.0 else 0.0  # relative changes of X and s, which W and V now hold
            by_s = mu_x / (x * flat_s[k]) - 1.0 - by_x if x > 0.0 else 0.0
            flat_V[k] = by_x
            flat_W[k] = by_s
            most = _larger(most, max(-by_x, 0.0))
            least = _larger(least, max(-by_s, 0.0))
        primal, dual = max(_as_double(most), -d_slack / slack), max(_as_double(least), -prices[M] / q)
        for i in range(M):
            primal = max(primal, 1.0 + prices[i] / p[i] - mu_p / (p[i] * w[i]))
            dual = max(dual, -prices[i] / p[i])
        inside = max(INSIDE, 1.0 - mu / scale)
        primal, dual = min(1.0, inside / max(primal, 1e-300)), min(1.0, inside / max(dual, 1e-300))
        products, by_p = 0.0, 0.0
        for k in range(M * N):
            flat_s[k] += dual * flat_W[k] * flat_s[k]
            flat_X[k] += primal * flat_V[k] * flat_X[k]
            products += flat_X[k] * flat_s[k]
        for i in range(M):
            w[i] += primal * (mu_p / p[i] - w[i] - w[i] * prices[i] / p[i])
            p[i] += dual * prices[i]
            by_p += p[i] * w[i]
        q += dual * prices[M]
        slack += primal * d_slack
        length = min(primal, dual)
        if length > LONG and mu <= target:
            break
        implied = (products / M + by_p + abs(q * slack - lam)) / 3.0
        mu = max(implied * max((1.0 - length) ** 2, CENTRING), target)
    _lower_prices(T, A, best, beta, X, work)
    return q, steps


@inner(fastmath=_LOOSE)
def _plan(T, A, best, forbidden, p, q, tau, X, work):
    """`dual_newton._plan`; called often, so that handing over a tuple would cost more than its arrays do."""
    M, N = T.shape
    least, total = work.mean, work.share
    for low in range(np.uint64(0), np.uint64(N), _BLOCK):
        n = min(_BLOCK, np.uint64(N) - low)
        for j in range(n):
            least[j], total[j] = np.inf, 0.0
        for i in range(M):
            price, q_each = p[i], q / N
            for j in range(n):
                X[i, low + j] = price * T[i, low + j] + q_each * (best[low + j] - A[i, low + j])
            if forbidden.size:
                for j in range(n):
                    if forbidden[i, low + j]:
                        X[i, low + j] = np.inf
            for j in range(n):
                least[j] = min(least[j], X[i, low + j])
        for i in range(M):
            for j in range(n):
                e = _exp((least[j] - X[i, low + j]) / tau)
                X[i, low + j] = e
                total[j] += e
        for j in range(n):
            total[j] = 1.0 / total[j]
        for i in range(M):
            for j in range(n):
                X[i, low + j] *= total[j]


@inner
def _normalise(log_p, p):
    top = log_p[0]
    for i in range(1, len(p)):
        top = max(top, log_p[i])
    total = 0.0
    for i in range(len(p)):
        total += math.exp(log_p[i] - top)
    total = math.log(total)
    for i in range(len(p)):
        log_p[i] = max(log_p[i] - top - total, LOWEST)
        p[i] = math.exp(log_p[i])


@inner
def _ascend(given, tolerance, near, q, X, space, work):
    """`dual_newton._ascend` from the prices work.p and q, X in place; (steps taken, whether it was not given up)."""
    T, A, best, forbidden, room = given.T, given.A, given.best, given.forbidden, given.room
    beta, lam, tau, log_p, longest = given.beta, given.lam, given.tau, space.log_p, space.longest
    M, N = T.shape
    p, wanted, sums, D, y = work.p, work.w, work.sums, work.D, work.y
    worst = _as_bits(0.0)
    for i in range(M):
        log_p[i] = math.log(max(p[i], 1e-300))
        top = _as_bits(0.0)
        for j in range(N):
            top = _larger(top, T[i, j])
        longest[i] = _as_double(top)
        if forbidden.size:
            for j in range(N):
                worst = _larger(worst, 0.0 if forbidden[i, j] else best[j] - A[i, j])
        else:
            for j in range(N):
                worst = _larger(worst, best[j] - A[i, j])
    most = _as_double(worst) / N
    _normalise(log_p, p)
    quiet_q = math.log(tau / max(most, 1e-300)) - 2.0
    for step in range(DUAL_STEPS + 1):
        _plan(T, A, best, forbidden, p, q, tau, X, work)
        _sums(T, A, best, X, sums)
        slack = room - sums[M]
        _softmax_load(sums, beta, wanted)
        off, size = 0.0, 0.0
        for i in range(M):
            off = max(off, abs(wanted[i] - p[i]) * longest[i])
            size = max(size, p[i] * longest[i])
        off += abs(lam / max(slack, 1e-300) - q) * most
        size += q * most + tau
        if off <= tolerance * size or step == DUAL_STEPS:
            break
        if step == PATIENCE and off > near * size:
            return step, False
        for i in range(M):
            y[i] = sums[i] - log_p[i] / beta
            D[i] = beta * p[i]
        y[M], D[M] = lam / q - slack, q * q / lam
        _factor(T, A, best, X, 1.0 / tau, work)
        _simplex_solve(work)
        loud = 0.0
        for i in range(M):
            y[i] /= p[i]
            if log_p[i] >= math.log(tau / max(longest[i], 1e-300)) - 2.0:
                loud = max(loud, y[i])
        alpha = LARGEST_STEP / max(loud, LARGEST_STEP)
        for i in range(M):
            quiet = math.log(tau / max(longest[i], 1e-300)) - 2.0
            log_p[i] += min(alpha * y[i], max(quiet - log_p[i], 0.0) + LARGEST_STEP)
        _normalise(log_p, p)
        by_q = alpha * y[M] / q
        by_q = -math.log1p(-by_q) if by_q < 0.0 else by_q
        q *= math.exp(min(by_q, max(quiet_q - math.log(q), 0.0) + LARGEST_STEP))
    return step, True


@inner(fastmath=_LOOSE)
def _optimality(given, X, p, V, work):
    """`dual_newton.optimality`: p and V in place; returns q and the residual."""
    T, A, best, forbidden, room = given.T, given.A, given.best, given.forbidden, given.room
    beta, lam, tau = given.beta, given.lam, given.tau
    M, N = T.shape
    sums, mean = work.sums, work.mean
    _sums(T, A, best, X, sums)
    _softmax_load(sums, beta, p)
    for i in range(M):
        p[i] = max(p[i], math.exp(LOWEST))
    slack = room - sums[M]
    q = lam / slack
    q_each = q / N
    largest, size = _as_bits(0.0), _as_bits(0.0)
    for low in range(np.uint64(0), np.uint64(N), _BLOCK):
        n = min(_BLOCK, np.uint64(N) - low)
        for j in range(n):
            mean[j] = 0.0
        for i in range(M):
            price = p[i]
            for j in range(n):
                x = X[i, low + j]
                term = price * T[i, low + j] + q_each * (best[low + j] - A[i, low + j])
                size = _larger(size, abs(term) if x > USED else 0.0)
                v = term + tau * _log(x if x > USED else FAINT)
                V[i, low + j] = v
                mean[j] += x * v
        for i in range(M):
            if forbidden.size:
                for j in range(n):
                    if forbidden[i, low + j]:
                        V[i, low + j] = np.inf
            for j in range(n):
                v = V[i, low + j] - mean[j]
                kept = X[i, low + j] > USED
                largest = _larger(largest, abs(v) if kept else max(-v, 0.0))
                V[i, low + j] = v if kept else 0.0
    return q, _as_double(largest) / (_as_double(size) + tau) if slack > 0.0 else np.inf


@inner(fastmath=_LOOSE)
def _polish(given, tolerance, X, V, work):
    """`dual_newton._polish`: X and work.p in place; returns q, the residual and the steps taken."""
    T, A, best, beta, lam, tau = given.T, given.A, given.best, given.beta, given.lam, given.tau
    M, N = T.shape
    p, D, total = work.p, work.D, work.mean
    for step in range(POLISH_STEPS + 1):
        q, residual = _optimality(given, X, p, V, work)
        if residual <= tolerance or step == POLISH_STEPS:
            break
        for i in range(M):
            D[i] = beta * p[i]
        D[M] = q * q / lam
        work.force[:] = 0.0
        _newton(T, A, best, X, 1.0 / tau, V, REFINEMENTS, work)
        for low in range(np.uint64(0), np.uint64(N), _BLOCK):
            n = min(_BLOCK, np.uint64(N) - low)
            for j in range(n):
                total[j] = 0.0
            for i in range(M):
                for j in range(n):
                    x = X[i, low + j]
                    X[i, low + j] = max(x + V[i, low + j], 0.1 * x)
                    total[j] += X[i, low + j]
            for i in range(M):
                for j in range(n):
                    X[i, low + j] /= total[j]
    return q, residual, step


@kernel
def _column_best(A, best):
    M, N = A.shape
    copy_row(A[0], best)
    for i in range(1, M):
        for j in range(N):
            best[j] = max(best[j], A[i, j])


# Over 10 positional parameters: a signature of plain arrays compiles the kernel when its module is imported.
@kernel(
    "void(f8[:,:,::1], f8[:,:,::1], b1[:,:,::1], f8[::1], f8[::1], f8[::1], f8[::1], f8[:,::1], f8[::1], f8, i8,"
    " i8, i8, f8[:,:,::1], f8[:,::1], f8[::1], i8[::1], f8[::1])",
)
def solve_range(
    T, A, forbidden, room, beta, lam, tau, start_p, start_q, tolerance, max_steps, first, last,
    X, p, q, steps, residual,
):  # fmt: skip
    """`dual_newton.solve_rounds` for the rounds first … last - 1, into X, p, q, steps, residual.

    `forbidden`, `start_p` and `start_q` are empty where there is no mask, or no start.
    """
    M, N = T.shape[1:]
    space = _Space(np.empty((M, N)), np.empty((M, N)), np.empty((M, N)), np.empty(M), np.empty(M))
    work, best = _work(M, N), np.empty(N)
    no_mask = np.empty((0, 0), np.bool_)
    for b in range(first, last):
        _column_best(A[b], best)
        mask = forbidden[b] if forbidden.size else no_mask
        given = _Round(T[b], A[b], best, mask, room[b], beta[b], lam[b], tau[b])
        trial = X[b]  # a first attempt works in place
        p[b], q[b], residual[b], steps[b] = 1.0 / M, room[b], np.inf, 0
        for attempt in range(0 if len(start_q) == 0 else -1, len(ATTEMPTS)):
            if attempt < 0:
                copy_row(start_p[b], work.p)
                price = start_q[b]
            else:
                handover, by_speed, refinements = ATTEMPTS[attempt]
                _share(given.T, mask, by_speed, trial)
                price, spent = _interior(given, handover, refinements, max_steps, trial, space, work)
                steps[b] += spent
            spent, arrived = _ascend(given, tolerance, NEAR if attempt < 0 else np.inf, price, trial, space, work)
            steps[b] += spent
            if not arrived:
                continue
            price, found, spent = _polish(given, tolerance, trial, space.V, work)
            steps[b] += spent
            if found < residual[b]:
                copy_rows(trial, X[b])
                copy_row(work.p, p[b])
                q[b], residual[b] = price, found
            if residual[b] <= tolerance:
                break
            if not residual[b] < np.inf:  # X[b] holds no plan
                _share(given.T, mask, False, X[b])
            trial = np.empty((M, N))


# Over 10 positional parameters: see `solve_range`.
@kernel(
    "void(f8[:,:,::1], f8[:,:,::1], f8[::1], f8[::1], f8[::1], f8[:,:,::1], f8[:,::1], f8[::1], f8[:,:,::1],"
    " i8, i8, f8[:,:,::1], f8[:,:,::1])",
)
def respond_range(T, A, beta, lam, tau, X, p, q, G, first, last, grad_T, grad_A):
    """`argmin.respond` for the rounds first … last - 1, into grad_T and grad_A; rounds with q not finite get zeros."""
    M, N = T.shape[1:]
    work, best = _work(M, N), np.empty(N)
    work.force[:] = 0.0
    for b in range(first, last):
        dX = grad_A[b]
        copy_rows(G[b], dX)
        if not math.isfinite(q[b]):
            grad_T[b] = 0.0
            grad_A[b] = 0.0
            continue
        for i in range(M):
            work.D[i] = beta[b] * p[b, i]
        work.D[M] = q[b] * q[b] / lam[b]
        _column_best(A[b], best)
        _newton(T[b], A[b], best, X[b], 1.0 / tau[b], dX, REFINEMENTS, work)
        for i in range(M):
            for j in range(N):
                change = dX[i, j]
                grad_T[b, i, j] = p[b, i] * change + X[b, i, j] * work.prices[i]
                grad_A[b, i, j] = -(q[b] * change + X[b, i, j] * work.prices[M]) / N
