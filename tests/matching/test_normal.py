"""Moments of normals: against Monte Carlo and quadrature, and the same for numbers, arrays, tensors and kernels."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate

from mfcp.matching.normal import expected_maximum, expected_shortfall

finite = st.floats(-3, 3)
deviations = st.floats(1e-3, 2)


def density(x, mean, deviation):
    return math.exp(-0.5 * ((x - mean) / deviation) ** 2) / (deviation * math.sqrt(2 * math.pi))


def maximum_of(loads, spreads):
    return float(expected_maximum(np.array(loads)[:, None], np.array(spreads)[:, None])[0])


@given(finite, deviations, finite, deviations)
def test_the_maximum_of_two_loads_is_that_of_quadrature(u, s, v, t):
    """E[max(X, Y)] = E[Y] + E[max(0, X - Y)] with X - Y normal."""
    gap, spread = u - v, np.hypot(s, t)
    above, _ = integrate.quad(lambda x: x * density(x, gap, spread), 0, max(gap, 0) + 12 * spread, points=[gap])
    assert maximum_of([u, v], [s**2, t**2]) == pytest.approx(v + above, abs=1e-7)


def test_the_maximum_of_three_loads_is_near_that_of_monte_carlo():
    mean, variance = [3.0, 2.5, 2.8], [0.5, 1.0, 0.2]
    draws = np.random.default_rng(0).normal(mean, np.sqrt(variance), (400_000, 3))
    assert maximum_of(mean, variance) == pytest.approx(draws.max(axis=1).mean(), abs=2e-2)


def test_certain_loads_have_their_largest_for_maximum():
    assert maximum_of([1.0, 3.0, 2.0], [0.0, 0.0, 0.0]) == 3.0
    assert maximum_of([1e6, 1.0], [1.0, 1.0]) == 1e6


@given(finite, deviations)
def test_shortfall_is_that_of_quadrature(distance, deviation):
    lowest = min(distance, 0) - 12 * deviation
    peak = [min(distance, 0)]
    lacking, _ = integrate.quad(lambda x: -x * density(x, distance, deviation), lowest, 0, points=peak)
    assert expected_shortfall(np.array(distance), np.array(deviation)) == pytest.approx(lacking, abs=1e-7)


def test_a_certain_reliability_lacks_what_it_is_below():
    np.testing.assert_array_equal(expected_shortfall(np.array([-0.02, 0.0, 0.05]), np.zeros(3)), [0.02, 0.0, 0.0])
    assert expected_shortfall(np.array(0.05), np.array(1e-4)) == pytest.approx(0.0, abs=1e-300)


def test_tensors_and_arrays_have_the_same_moments():
    rng = np.random.default_rng(1)
    mean, variance = rng.normal(5, 2, (4, 3, 50)), rng.uniform(0.1, 2, (4, 3, 50))
    tensors = expected_maximum(torch.tensor(mean), torch.tensor(variance))
    np.testing.assert_allclose(tensors, expected_maximum(mean, variance), rtol=1e-12)
    distance, deviation = rng.normal(0, 0.05, 50), rng.uniform(0.001, 0.1, 50)
    tensors = expected_shortfall(torch.tensor(distance), torch.tensor(deviation))
    np.testing.assert_allclose(tensors, expected_shortfall(distance, deviation), atol=1e-15)


def test_derivatives_are_those_of_finite_differences():
    rng = np.random.default_rng(0)
    mean, variance = (torch.tensor(rng.uniform(1, 2, (1, 2, 3, 4)), requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(expected_maximum, (mean, variance))
    distance = torch.tensor(rng.normal(0, 0.02, 5), requires_grad=True)
    deviation = torch.full((5,), 1e-2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(expected_shortfall, (distance, deviation), eps=1e-8, atol=1e-4)


def test_derivatives_are_finite_in_single_precision():
    mean = torch.tensor([[1.0], [1e4]], requires_grad=True)
    variance = torch.zeros(2, 1, requires_grad=True)
    for derivative in torch.autograd.grad(expected_maximum(mean, variance).sum(), (mean, variance)):
        assert derivative.isfinite().all()
