"""The steps of ADMM: projections and proximal steps against their optimality conditions."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from matching.decomposition.fractions import platforms
from scipy.optimize import nnls

from mfcp.matching.decomposition.alternating_directions import (
    nonnegative_quadratic,
    project_knapsack,
    project_simplex,
)
from mfcp.matching.decomposition.fractional import RelaxedMatching

seeds = st.integers(0, 2**32 - 1)


@given(seeds, st.integers(1, 8), st.booleans())
@settings(max_examples=100)
def test_simplex_projection_meets_its_optimality_conditions(seed, size, inside):
    rng = np.random.default_rng(seed)
    point, radius = 2 * rng.standard_normal((4, size)), rng.uniform(0.1, 3, 4)
    point[1, 1:] = -np.inf  # entries that are not there
    x = project_simplex(point, radius, inside=inside)
    total = x.sum(axis=1)
    assert (x >= 0).all()
    assert (total <= radius + 1e-12).all()
    for row in range(4):
        used = x[row] > 0
        level = (point[row] - x[row])[used].max(initial=0.0 if inside else -np.inf)
        assert (point[row][~used] <= level + 1e-12).all()
        np.testing.assert_allclose((point[row] - x[row])[used], level, atol=1e-12)
        assert abs(total[row] - radius[row]) < 1e-12 or (inside and abs(level) < 1e-12)


@given(seeds, st.integers(1, 8))
@settings(max_examples=100)
def test_knapsack_projection_meets_its_optimality_conditions(seed, size):
    rng = np.random.default_rng(seed)
    point, weight, limit = 2 * rng.standard_normal((4, size)), rng.uniform(0.2, 3, size), rng.uniform(0.1, 3, 4)
    point[1, 1:] = -np.inf
    x = project_knapsack(point, weight, limit)
    total = x @ weight
    assert (x >= 0).all()
    assert (total <= limit + 1e-12).all()
    for row in range(4):
        used = x[row] > 0
        price = ((point[row] - x[row]) / weight)[used].max(initial=0.0)
        np.testing.assert_allclose((point[row] - x[row])[used], price * weight[used], atol=1e-12)
        assert (point[row][~used] <= price * weight[~used] + 1e-12).all()
        assert price < 1e-12 or abs(total[row] - limit[row]) < 1e-12


@given(seeds, st.integers(1, 4))
@settings(max_examples=50)
def test_row_multipliers_are_those_of_nonnegative_least_squares(seed, rows):
    rng = np.random.default_rng(seed)
    matrix, target = rng.standard_normal((3, rows + 3, rows)), rng.standard_normal((3, rows + 3))
    gram, linear = np.einsum("mnk,mnl->klm", matrix, matrix), np.einsum("mnk,mn->km", matrix, target)
    found = nonnegative_quadratic(gram, linear, rng.random((rows, 3)))
    expected = np.stack([nnls(matrix[m], target[m])[0] for m in range(3)], axis=1)
    # coordinate descent stops after a fixed number of sweeps: what counts is the objective
    value = 0.5 * np.einsum("km,klm,lm->m", found, gram, found) - (linear * found).sum(axis=0)
    best = 0.5 * np.einsum("km,klm,lm->m", expected, gram, expected) - (linear * expected).sum(axis=0)
    assert (found >= 0).all()
    assert (value <= best + 0.02 * np.abs(best) + 1e-9).all()


@given(platforms(), seeds)
@settings(max_examples=40)
def test_both_steps_are_proximal(problem, seed):
    """A projection's result satisfies its constraints and lies nearer to the point than any other feasible one."""
    rng = np.random.default_rng(seed)
    blocks = RelaxedMatching(problem, [])
    start = blocks.cold()
    point = start.z + 0.3 * rng.standard_normal(start.z.shape)
    x = blocks.resource_step(point, 1.0)
    ends = (blocks.use[0] * x[:-2]).sum(0) - blocks.limit[0]
    assert (ends <= x[-2] + 1e-9).all()
    np.testing.assert_allclose(x[-1], (blocks.a * x[:-2]).sum(0), atol=1e-9)
    other = blocks.resource_step(x + 0.1 * rng.standard_normal(x.shape), 1.0)  # another feasible point
    assert ((point - x) * (other - x)).sum() <= 1e-9
    z = blocks.demand_step(point, 1.0)
    np.testing.assert_allclose(z[:-2].sum(axis=1), 1.0)
    assert z[-1].sum() >= blocks.need - 1e-9
    assert not z[:-2][~blocks.allowed].any()
