"""Mirror descent, unrolled."""

import pytest
from matching.instances import gradients, rounds

from mfcp.matching import SpeedUp, Unrolled
from mfcp.matching.relaxed.mirror_descent import interior_plan, margin, mirror_step, objective
from mfcp.matching.relaxed.objective import relaxed_problem


def test_unrolled_mirror_descent_agrees():
    T, A, gamma = rounds(3, 5, 4, spread=0.2)
    T = T / 4
    weights = (2.0, 0.3, 0.3)
    for exact, unrolled in zip(
        gradients(T, A, gamma, weights), gradients(T, A, gamma, weights, gradient=Unrolled(steps=1500)), strict=True
    ):
        assert (exact - unrolled).abs().max() < 1e-5 * exact.abs().max()


@pytest.mark.parametrize("speedup", [None, SpeedUp(0.6, 2.0)])
def test_every_step_lowers_the_objective_and_stays_inside(speedup):
    T, A, gamma = rounds(3, 6, 8)
    problem = relaxed_problem(T, A, gamma, 10.0, 0.05, 0.02, None, speedup)
    X = interior_plan(problem)
    assert (margin(problem, X) > 0).all()
    for _ in range(20):
        moved = mirror_step(problem, X)
        assert (objective(problem, moved) <= objective(problem, X) + 1e-12).all()
        assert (margin(problem, moved) > 0).all()
        assert (moved.sum(1) - 1).abs().max() < 1e-12
        X = moved
