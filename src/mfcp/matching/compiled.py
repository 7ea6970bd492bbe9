# mypy: allow-untyped-defs, allow-untyped-decorators
"""`dual.solve_rounds` and `solvers.respond` for the CPU, compiled: one round after another, no temporaries.

Line by line the algorithm of `prices.py`, `interior.py` and `dual.py`, which define it and against which every
result here is tested. A round needs four arrays of its own shape besides T, A and X. The kernels hold no Python
lock, so rounds can be split over threads; they are compiled once, to a cache beside this file. That cache notices
changes of this file only: kernels stay in one file, and the constants of other modules come as arguments.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

# Sums may be reordered, so that they vectorise; NaN and infinity keep their meaning.
_LOOSE = {"reassoc", "contract", "nsz", "arcp"}


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_LOOSE)
def _factor(T, A, best, W, c, D, H, S, TW, mean):
    """H := Cholesky factor of I + S K S for weights c W; S := sqrt(D); mean := weighted mean regret per task."""
    M, N = T.shape
    root = np.zeros(N)
    mean[:] = 0.0
    for i in range(M):
        for j in range(N):
            root[j] += W[i, j]
            mean[j] += (best[j] - A[i, j]) * W[i, j]
    for j in range(N):
        mean[j] /= root[j] * N
        root[j] = math.sqrt(c / root[j])
    last = 0.0
    for i in range(M):
        own, cross = 0.0, 0.0
        for j in range(N):
            w = c * W[i, j]
            tw = T[i, j] * w
            TW[i, j] = T[i, j] * W[i, j] * root[j]
            centred = (best[j] - A[i, j]) / N - mean[j]
            own += tw * T[i, j] * (1.0 - W[i, j] * root[j] * root[j] / c)
            cross += tw * centred
            last += w * centred * centred
        H[i, i] = own
        H[M, i] = cross
        for k in range(i):
            dot = 0.0
            for j in range(N):
                dot += TW[i, j] * TW[k, j]
            H[i, k] = -dot
    H[M, M] = last
    for i in range(M + 1):
        S[i] = math.sqrt(D[i])
    for i in range(M + 1):
        for k in range(i + 1):
            H[i, k] *= S[i] * S[k]
        H[i, i] += 1.0
    _cholesky(H)


@njit(cache=True, nogil=True, error_model="numpy")
def _cholesky(H):
    n = len(H)
    for k in range(n):
        pivot = H[k, k]
        for m in range(k):
            pivot -= H[k, m] * H[k, m]
        H[k, k] = math.sqrt(pivot)
        for i in range(k + 1, n):
            value = H[i, k]
            for m in range(k):
                value -= H[i, m] * H[k, m]
            H[i, k] = value / H[k, k]


@njit(cache=True, nogil=True, error_model="numpy")
def _substitute(L, b):
    n = len(b)
    for i in range(n):
        for k in range(i):
            b[i] -= L[i, k] * b[k]
        b[i] /= L[i, i]
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            b[i] -= L[k, i] * b[k]
        b[i] /= L[i, i]


@njit(cache=True, nogil=True, error_model="numpy")
def _simplex_solve(L, S, force):
    """`prices._simplex_solve`."""
    M = len(S) - 1
    y, e = S * force, S.copy()
    e[M] = 0.0
    _substitute(L, y)
    _substitute(L, e)
    top, bottom = 0.0, 0.0
    for i in range(M):
        top += S[i] * y[i]
        bottom += S[i] * e[i]
    return S * (y - top / bottom * e)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_LOOSE)
def _respond(T, A, best, W, c, V, prices, sums, store):
    """sums := loads and missing reliability of the response to gradient V and price changes; V := it, if `store`."""
    M, N = T.shape
    q = prices[M] / N
    mean, total = np.zeros(N), np.zeros(N)
    for i in range(M):
        for j in range(N):
            mean[j] += W[i, j] * (V[i, j] + T[i, j] * prices[i] + (best[j] - A[i, j]) * q)
            total[j] += W[i, j]
    for j in range(N):
        mean[j] /= total[j]
    short = 0.0
    for i in range(M):
        load = 0.0
        for j in range(N):
            change = -c * W[i, j] * (V[i, j] + T[i, j] * prices[i] + (best[j] - A[i, j]) * q - mean[j])
            load += T[i, j] * change
            short += (best[j] - A[i, j]) * change
            if store:
                V[i, j] = change
        sums[i] = load
    sums[M] = short / N


@njit(cache=True, nogil=True, error_model="numpy")
def _newton(T, A, best, W, c, D, V, force, refinements, TW):
    """`prices.newton_step` for weights c W: V, the gradient, becomes dX; the price changes are returned."""
    M, N = T.shape
    H, S, mean, sums = np.empty((M + 1, M + 1)), np.empty(M + 1), np.empty(N), np.empty(M + 1)
    _factor(T, A, best, W, c, D, H, S, TW, mean)
    prices = np.zeros(M + 1)
    for _ in range(1 + refinements):
        _respond(T, A, best, W, c, V, prices, sums, False)
        prices += _simplex_solve(H, S, sums + force - prices / D)
    _respond(T, A, best, W, c, V, prices, sums, True)
    return prices


@njit(cache=True, nogil=True, error_model="numpy")
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


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_LOOSE)
def _sums(T, A, best, X, sums):
    M, N = T.shape
    short = 0.0
    for i in range(M):
        load = 0.0
        for j in range(N):
            load += T[i, j] * X[i, j]
            short += (best[j] - A[i, j]) / N * X[i, j]
        sums[i] = load
    sums[M] = short


@njit(cache=True, nogil=True, error_model="numpy")
def _softmax_load(sums, beta, p):
    M = len(p)
    top = sums[:M].max()
    total = 0.0
    for i in range(M):
        p[i] = math.exp(beta * (sums[i] - top))
        total += p[i]
    for i in range(M):
        p[i] /= total


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_LOOSE)
def _interior(T, A, best, room, beta, lam, tau, handover, refinements, max_steps, tuning, X, s, W, TW, V, p):
    """`interior.interior_point` from the plan X: prices p in place; returns q and the steps taken."""
    M, N = T.shape
    centring, inside_least, long = tuning[0], tuning[1], tuning[2]
    w, D, force, sums = np.empty(M), np.empty(M + 1), np.empty(M + 1), np.empty(M + 1)
    mu, short = 0.0, 0.0
    for i in range(M):
        for j in range(N):
            mu += T[i, j] * X[i, j] / M
            short += (best[j] - A[i, j]) / N * X[i, j]
    mu = max(mu, 1e-300)
    slack = max(room, short)
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
        short = 0.0
        for i in range(M):
            load = 0.0
            for j in range(N):
                x = X[i, j]
                d = (best[j] - A[i, j]) / N
                load += T[i, j] * x
                short += d * x
                W[i, j] = x / (tau + s[i, j])
                # forbidden pairs have x = W = 0: any finite gradient does
                V[i, j] = p[i] * T[i, j] + q * d + tau * math.log(x) - mu_x / x if x > 0.0 else 0.0
            force[i] = load - math.log(p[i]) / beta + mu_p / p[i]
            D[i] = p[i] / (1.0 / beta + w[i])
        force[M] = (lam + mu) / q - room + short
        D[M] = q / slack
        prices = _newton(T, A, best, W, 1.0, D, V, force, refinements, TW)
        missing = 0.0
        for i in range(M):
            for j in range(N):
                missing += (best[j] - A[i, j]) / N * V[i, j]
        d_slack = room - slack - short - missing
        primal, dual = -d_slack / slack, -prices[M] / q
        for i in range(M):
            primal = max(primal, 1.0 + prices[i] / p[i] - mu_p / (p[i] * w[i]))
            dual = max(dual, -prices[i] / p[i])
            for j in range(N):
                if X[i, j] > 0.0:
                    ratio = V[i, j] / X[i, j]
                    primal = max(primal, -ratio)
                    dual = max(dual, 1.0 + ratio - mu_x / (X[i, j] * s[i, j]))
        inside = max(inside_least, 1.0 - mu / scale)
        primal, dual = min(1.0, inside / max(primal, 1e-300)), min(1.0, inside / max(dual, 1e-300))
        products, by_p = 0.0, 0.0
        for i in range(M):
            for j in range(N):
                if X[i, j] > 0.0:
                    s[i, j] += dual * (mu_x / X[i, j] - s[i, j] - s[i, j] * V[i, j] / X[i, j])
                    X[i, j] += primal * V[i, j]
                    products += X[i, j] * s[i, j]
            w[i] += primal * (mu_p / p[i] - w[i] - w[i] * prices[i] / p[i])
            p[i] += dual * prices[i]
            by_p += p[i] * w[i]
        q += dual * prices[M]
        slack += primal * d_slack
        length = min(primal, dual)
        if length > long and mu <= target:
            break
        implied = (products / M + by_p + abs(q * slack - lam)) / 3.0
        mu = max(implied * max((1.0 - length) ** 2, centring), target)
    _sums(T, A, best, X, sums)
    _softmax_load(sums, beta, w)
    for i in range(M):
        if w[i] < 0.1 * p[i]:
            p[i] = w[i]
    return q, steps


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_LOOSE)
def _plan(T, A, best, forbidden, p, q, tau, X, low, total):
    """`dual._plan`."""
    M, N = T.shape
    low[:] = np.inf
    total[:] = 0.0
    for i in range(M):
        for j in range(N):
            X[i, j] = p[i] * T[i, j] + q * ((best[j] - A[i, j]) / N)
    if forbidden.size:
        for i in range(M):
            for j in range(N):
                if forbidden[i, j]:
                    X[i, j] = np.inf
    for i in range(M):
        for j in range(N):
            low[j] = min(low[j], X[i, j])
    for i in range(M):
        for j in range(N):
            z = (low[j] - X[i, j]) / tau
            e = math.exp(z) if z > -745.0 else 0.0
            X[i, j] = e
            total[j] += e
    for i in range(M):
        for j in range(N):
            X[i, j] /= total[j]


@njit(cache=True, nogil=True, error_model="numpy")
def _normalise(log_p, p, lowest):
    top = log_p.max()
    total = 0.0
    for i in range(len(p)):
        total += math.exp(log_p[i] - top)
    for i in range(len(p)):
        log_p[i] = max(log_p[i] - top - math.log(total), lowest)
        p[i] = math.exp(log_p[i])


@njit(cache=True, nogil=True, error_model="numpy")
def _ascend(T, A, best, forbidden, room, beta, lam, tau, tolerance, tuning, p, q, X, TW):
    """`dual._ascend`: X in place; returns the steps taken."""
    M, N = T.shape
    lowest, dual_steps, largest_step = tuning[3], int(tuning[4]), tuning[5]
    H, S, mean, total = np.empty((M + 1, M + 1)), np.empty(M + 1), np.empty(N), np.empty(N)
    sums, force, D, wanted = np.empty(M + 1), np.empty(M + 1), np.empty(M + 1), np.empty(M)
    log_p, longest, worst = np.empty(M), np.zeros(M), 0.0
    for i in range(M):
        log_p[i] = math.log(max(p[i], 1e-300))
        for j in range(N):
            longest[i] = max(longest[i], T[i, j])
            if not (forbidden.size and forbidden[i, j]):
                worst = max(worst, (best[j] - A[i, j]) / N)
    _normalise(log_p, p, lowest)
    quiet_q = math.log(tau / max(worst, 1e-300)) - 2.0
    for step in range(dual_steps + 1):
        _plan(T, A, best, forbidden, p, q, tau, X, mean, total)
        _sums(T, A, best, X, sums)
        slack = room - sums[M]
        _softmax_load(sums, beta, wanted)
        off, size = 0.0, 0.0
        for i in range(M):
            off = max(off, abs(wanted[i] - p[i]) * longest[i])
            size = max(size, p[i] * longest[i])
        off += abs(lam / max(slack, 1e-300) - q) * worst
        if off <= tolerance * (size + q * worst + tau) or step == dual_steps:
            break
        for i in range(M):
            force[i] = sums[i] - log_p[i] / beta
            D[i] = beta * p[i]
        force[M], D[M] = lam / q - slack, q * q / lam
        _factor(T, A, best, X, 1.0 / tau, D, H, S, TW, mean)
        change = _simplex_solve(H, S, force)
        loud = 0.0
        for i in range(M):
            change[i] /= p[i]
            if log_p[i] >= math.log(tau / max(longest[i], 1e-300)) - 2.0:
                loud = max(loud, change[i])
        alpha = largest_step / max(loud, largest_step)
        for i in range(M):
            quiet = math.log(tau / max(longest[i], 1e-300)) - 2.0
            log_p[i] += min(alpha * change[i], max(quiet - log_p[i], 0.0) + largest_step)
        _normalise(log_p, p, lowest)
        by_q = alpha * change[M] / q
        by_q = -math.log1p(-by_q) if by_q < 0.0 else by_q
        q *= math.exp(min(by_q, max(quiet_q - math.log(q), 0.0) + largest_step))
    return step


@njit(cache=True, nogil=True, error_model="numpy")
def _optimality(T, A, best, room, beta, lam, tau, lowest, used, X, p, V):
    """`dual.optimality`: p and V in place; returns q and the residual."""
    M, N = T.shape
    sums = np.empty(M + 1)
    _sums(T, A, best, X, sums)
    _softmax_load(sums, beta, p)
    for i in range(M):
        p[i] = max(p[i], math.exp(lowest))
    slack = room - sums[M]
    q = lam / slack
    largest, size, check = 0.0, 0.0, 0.0
    for j in range(N):
        mean = 0.0
        for i in range(M):
            V[i, j] = 0.0
            if X[i, j] > used:
                term = p[i] * T[i, j] + q * ((best[j] - A[i, j]) / N)
                size = max(size, abs(term))
                V[i, j] = term + tau * math.log(X[i, j])
                mean += X[i, j] * V[i, j]
        for i in range(M):
            if X[i, j] > used:
                V[i, j] -= mean
                largest = max(largest, abs(V[i, j]))
                check += V[i, j]
    # 0 · check is NaN where any entry is, which max would pass over
    return q, (largest + 0.0 * check) / (size + tau) if slack > 0.0 else np.inf


@njit(cache=True, nogil=True, error_model="numpy")
def _polish(T, A, best, room, beta, lam, tau, tolerance, tuning, X, p, V, TW):
    """`dual._polish`: X and p in place; returns q, the residual and the steps taken."""
    M, N = T.shape
    lowest, used, polish_steps, refinements = tuning[3], tuning[6], int(tuning[7]), int(tuning[8])
    D = np.empty(M + 1)
    for step in range(polish_steps + 1):
        q, residual = _optimality(T, A, best, room, beta, lam, tau, lowest, used, X, p, V)
        if residual <= tolerance or step == polish_steps:
            break
        for i in range(M):
            D[i] = beta * p[i]
        D[M] = q * q / lam
        _newton(T, A, best, X, 1.0 / tau, D, V, np.zeros(M + 1), refinements, TW)
        for j in range(N):
            total = 0.0
            for i in range(M):
                X[i, j] = max(X[i, j] + V[i, j], 0.1 * X[i, j])
                total += X[i, j]
            for i in range(M):
                X[i, j] /= total
    return q, residual, step


@njit(cache=True, nogil=True, error_model="numpy")
def _column_best(A):
    M, N = A.shape
    best = A[0].copy()
    for i in range(1, M):
        for j in range(N):
            best[j] = max(best[j], A[i, j])
    return best


@njit(
    "void(f8[:,:,::1], f8[:,:,::1], b1[:,:,::1], f8[::1], f8[::1], f8[::1], f8[::1], f8[:,::1], f8[::1], f8, i8,"
    " f8[:,::1], f8[::1], i8, i8, f8[:,:,::1], f8[:,::1], f8[::1], i8[::1], f8[::1])",
    cache=True,
    nogil=True,
    error_model="numpy",
)
def solve_range(
    T, A, forbidden, room, beta, lam, tau, start_p, start_q, tolerance, max_steps, attempts, tuning, first, last,
    X, p, q, steps, residual,
):  # fmt: skip
    """`dual.solve_rounds` for the rounds first … last - 1, into X, p, q, steps, residual.

    `forbidden`, `start_p` and `start_q` are empty where there is no mask, or no start. `attempts` is `dual.ATTEMPTS`;
    `tuning` holds CENTRING, INSIDE, LONG, LOWEST, DUAL_STEPS, LARGEST_STEP, USED, POLISH_STEPS, REFINEMENTS.
    """
    M, N = T.shape[1:]
    s, W, TW, V = np.empty((M, N)), np.empty((M, N)), np.empty((M, N)), np.empty((M, N))
    prices = np.empty(M)
    for b in range(first, last):
        Tb, Ab, gap, sharp, barrier, entropy = T[b], A[b], room[b], beta[b], lam[b], tau[b]
        best = _column_best(Ab)
        mask = forbidden[b] if forbidden.size else np.empty((0, 0), np.bool_)
        trial = X[b]  # a first attempt works in place
        p[b], q[b], residual[b], steps[b] = 1.0 / M, gap, np.inf, 0
        for attempt in range(0 if len(start_q) == 0 else -1, len(attempts)):
            if attempt < 0:
                prices[:] = start_p[b]
                price = start_q[b]
            else:
                _share(Tb, mask, attempts[attempt, 1] > 0.0, trial)
                price, spent = _interior(
                    Tb, Ab, best, gap, sharp, barrier, entropy, attempts[attempt, 0], int(attempts[attempt, 2]),
                    max_steps, tuning, trial, s, W, TW, V, prices,
                )  # fmt: skip
                steps[b] += spent
            steps[b] += _ascend(
                Tb, Ab, best, mask, gap, sharp, barrier, entropy, tolerance, tuning, prices, price, trial, TW
            )
            price, found, spent = _polish(
                Tb, Ab, best, gap, sharp, barrier, entropy, tolerance, tuning, trial, prices, V, TW
            )
            steps[b] += spent
            if found < residual[b]:
                X[b], p[b], q[b], residual[b] = trial, prices, price, found
            if residual[b] <= tolerance:
                break
            if not residual[b] < np.inf:  # what is there is no plan
                _share(Tb, mask, False, X[b])
            trial = np.empty((M, N))


@njit(
    "void(f8[:,:,::1], f8[:,:,::1], f8[::1], f8[::1], f8[::1], f8[:,:,::1], f8[:,::1], f8[::1], f8[:,:,::1],"
    " i8, i8, i8, f8[:,:,::1], f8[:,:,::1])",
    cache=True,
    nogil=True,
    error_model="numpy",
)
def respond_range(T, A, beta, lam, tau, X, p, q, G, refinements, first, last, grad_T, grad_A):
    """`solvers.respond` for the rounds first … last - 1, into grad_T and grad_A; rounds with q not finite get zeros."""
    M, N = T.shape[1:]
    TW, D = np.empty((M, N)), np.empty(M + 1)
    for b in range(first, last):
        dX = grad_A[b]
        dX[:] = G[b]
        if not math.isfinite(q[b]):
            grad_T[b] = 0.0
            grad_A[b] = 0.0
            continue
        for i in range(M):
            D[i] = beta[b] * p[b, i]
        D[M] = q[b] * q[b] / lam[b]
        prices = _newton(T[b], A[b], _column_best(A[b]), X[b], 1.0 / tau[b], D, dX, np.zeros(M + 1), refinements, TW)
        for i in range(M):
            for j in range(N):
                change = dX[i, j]
                grad_T[b, i, j] = p[b, i] * change + X[b, i, j] * prices[i]
                grad_A[b, i, j] = -(q[b] * change + X[b, i, j] * prices[M]) / N
