"""The dense KKT system, an independent way to the implicit gradient."""

import pytest
import torch
from matching.instances import rounds, weights_like

from mfcp.matching.reference.kkt import kkt_residual, kkt_response
from mfcp.matching.relaxed.argmin import respond, solve_relaxed
from mfcp.matching.relaxed.objective import relaxed_problem

ENGINES = ["torch", "compiled"]


@pytest.mark.parametrize("backend", ENGINES)
@pytest.mark.parametrize("weights", [(5.0, 0.1, 0.1), (40.0, 0.003, 0.01)], ids=str)
def test_implicit_equals_the_dense_kkt_system(weights, backend):
    T, A, gamma = rounds(3, 5, 6)
    problem = relaxed_problem(T, A, gamma, *weights)
    solution = solve_relaxed(problem, backend=backend)
    G = weights_like(T)
    for ours, dense in zip(
        respond(problem, solution, G, backend=backend), kkt_response(problem, solution.X, G), strict=True
    ):
        assert (ours - dense).abs().max() < 1e-7 * dense.abs().max()


def test_optimality_conditions_hold_at_the_plan_and_nowhere_else():
    T, A, gamma = rounds(3, 5, 4)
    problem = relaxed_problem(T, A, gamma, 5.0, 0.1, 0.1)
    X = solve_relaxed(problem).X
    slope, _ = kkt_residual(problem, X, torch.zeros(4, 5, dtype=torch.float64))
    nu = -(X * slope).sum(1)
    stationarity, feasibility = kkt_residual(problem, X, nu)
    assert stationarity.abs().max() < 1e-8
    assert feasibility.abs().max() < 1e-12
    elsewhere, _ = kkt_residual(problem, X.roll(1, 2), nu)
    assert elsewhere.abs().max() > 1e-2
