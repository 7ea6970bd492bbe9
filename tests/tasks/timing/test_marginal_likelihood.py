"""What is most likely: against scipy on the same function, and where nothing is measured."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from mfcp.tasks.timing.marginal_likelihood import most_likely

X = np.linspace(0, 3, 40)
Y = np.sin(2 * X) + 0.1 * np.random.default_rng(0).standard_normal(40)
START = {"deviation": 1.0, "length": 1.0, "noise": 0.3}


def covariance(values):
    deviation, length, noise = (2 * values).exp()
    gap = torch.as_tensor((X[:, None] - X[None]) ** 2)
    return deviation * torch.exp(-gap / (2 * length)) + noise * torch.eye(len(X), dtype=torch.float64)


def surprise(logs, prior_sd):
    K = covariance(torch.as_tensor(logs)).numpy()
    sign, determinant = np.linalg.slogdet(K)
    assert sign > 0
    prior = ((logs - np.log(list(START.values()))) ** 2).sum() / (2 * prior_sd**2)
    return 0.5 * Y @ np.linalg.solve(K, Y) + determinant / 2 + prior


def test_it_is_the_optimum_that_another_optimiser_finds():
    found = most_likely(START, covariance, torch.as_tensor(Y), prior_sd=1.0, lr=0.08)
    best = minimize(surprise, np.log(list(START.values())), args=(1.0,), method="Nelder-Mead", tol=1e-8)
    assert list(found) == list(START)
    assert surprise(np.array(list(found.values())), 1.0) == pytest.approx(best.fun, abs=0.05)
    assert np.exp(found["noise"]) == pytest.approx(0.1, rel=0.3)


def test_a_narrow_prior_keeps_the_start():
    found = most_likely(START, covariance, torch.as_tensor(Y), prior_sd=1e-3, lr=0.001)
    assert np.exp(list(found.values())) == pytest.approx(list(START.values()), rel=0.02)
