"""Seeded rounds for the tests of the relaxed matching."""

import numpy as np
import torch

from mfcp.matching import relaxed_solution


def rounds(M, N, B, *, seed=0, edge=None, tight=0.6, spread=0.5):
    """T, A (B, M, N) and gamma (B,): clusters and tasks both matter, gamma binds and is within reach.

    gamma lies a share `tight` of the way from the fastest plan's reliability to the best, or `edge` below the best;
    T is in units of each round's balanced fastest makespan.
    """
    rng = np.random.default_rng(seed)
    size, speed = rng.lognormal(0, 0.7, (B, 1, N)), rng.lognormal(0, 0.4, (B, M, 1))
    T = size / speed * np.exp(spread * rng.standard_normal((B, M, N)))
    A = 0.995 - 0.25 * rng.random((B, M, N)) - 0.1 * rng.random((B, M, 1))
    best = A.max(1).mean(1)
    fast = np.take_along_axis(A, T.argmin(1)[:, None], 1)[:, 0].mean(1)
    gamma = best - edge if edge is not None else fast + tight * (best - fast) - 0.002
    T /= T.min(1).sum(1)[:, None, None] / M
    return torch.tensor(T), torch.tensor(A), torch.tensor(gamma)


def relative_kkt(T, A, X, gamma, beta, lam, tau, allowed=True):
    """(B,) spread of ∇F over the used rows of each column, relative to its largest term; in numpy, from X alone.

    A row that is not used counts by what it is cheaper than the used ones.
    """
    T, A, X, gamma = (np.asarray(v) for v in (T, A, X.detach(), gamma))
    beta, lam, tau = (np.broadcast_to(np.asarray(v, float), gamma.shape) for v in (beta, lam, tau))
    u = beta[:, None] * (T * X).sum(2)
    p = np.exp(u - u.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    q = lam / ((A * X).sum((1, 2)) / T.shape[2] - gamma)
    used = X > 1e-300
    cost = p[:, :, None] * T + (q / T.shape[2])[:, None, None] * (A.max(1, keepdims=True) - A)
    G = cost + tau[:, None, None] * np.log(np.where(used, X, 1.0))
    level = (X * np.where(used, G, 0.0)).sum(1, keepdims=True)
    G = np.where(used, np.abs(G - level), np.maximum(level - cost, 0.0) * allowed)
    return G.max((1, 2)) / (np.where(used, cost, 0.0).max((1, 2)) + tau)


def weights_like(X, seed=0):
    return torch.randn(X.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def gradients(T, A, gamma, weights, **options):
    t, a = T.clone().requires_grad_(), A.clone().requires_grad_()
    found = relaxed_solution(t, a, gamma, *weights, **options)
    return torch.autograd.grad((found.X * weights_like(found.X)).sum(), (t, a))
