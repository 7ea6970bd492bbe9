"""Prices: strong duality, and kernels that survive threads and forks."""

import numpy as np
import torch
from matching.instances import rounds

from mfcp.matching import relaxed_solution
from mfcp.matching.relaxed.objective import relaxed_objective


def test_dual_value_equals_the_objective():
    T, A, gamma = rounds(4, 9, 8)
    beta, lam, tau = 5.0, 0.1, 0.05
    found = relaxed_solution(T, A, gamma, beta, lam, tau)
    p, q = found.p, found.q
    exponent = (q[:, None, None] * A / 9 - p[:, :, None] * T) / tau
    soft = tau * torch.logsumexp(exponent, 1).sum(1)
    # the entropies' conjugates leave lam (1 - log lam), a constant
    dual = -torch.xlogy(p, p).sum(1) / beta + lam * q.log() + gamma * q - soft + lam * (1 - np.log(lam))
    primal = relaxed_objective(found.X, T, A, gamma, beta, lam, tau)
    assert (dual - primal).abs().max() < 1e-9 * primal.abs().max()


def test_prices_are_a_simplex_and_charge_reliability():
    T, A, gamma = rounds(4, 9, 8)
    loose = relaxed_solution(T, A, gamma - 0.1, 5.0, 0.1, 0.05)
    tight = relaxed_solution(T, A, gamma, 5.0, 0.1, 0.05)
    assert (tight.p.sum(1) - 1).abs().max() < 1e-12
    assert (tight.q > loose.q).all()
