"""What the printed algorithms do, measured: the reason why the package does something else."""

import torch
from matching.instances import rounds

from mfcp.matching.reference.literal import forward_gradient, softmax_descent
from mfcp.matching.relaxed.argmin import respond, solve_relaxed
from mfcp.matching.relaxed.mirror_descent import mirror_descent, objective
from mfcp.matching.relaxed.objective import relaxed_problem


def test_algorithm_1_as_printed_stalls_and_mirror_descent_does_not():
    T, A, gamma = rounds(3, 5, 16)
    problem = relaxed_problem(T, A, gamma - 0.1, 5.0, 0.1, 0.01)
    best = objective(problem, solve_relaxed(problem).X)
    printed = softmax_descent(problem, steps=300)
    assert (objective(problem, printed) > 1.05 * best).all()
    assert printed.amax(1).median() < 0.8  # near uniform: nothing is decided
    assert ((objective(problem, mirror_descent(problem, 1000)) - best) / best.abs()).max() < 5e-3


def test_algorithm_2_as_printed_points_downhill():
    T, A, gamma = rounds(3, 5, 4)
    problem = relaxed_problem(T, A, gamma - 0.05, 5.0, 0.1, 0.1)
    G = torch.randn(T.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    solution = solve_relaxed(problem)
    exact, _ = respond(problem, solution, G)
    estimate = forward_gradient(
        problem,
        lambda X: (X * G).sum((1, 2)),
        0,
        samples=300,
        delta=1e-3,
        generator=torch.Generator().manual_seed(1),
        inner=lambda problem: solve_relaxed(problem).X,
    )
    assert torch.cosine_similarity(estimate, exact[:, 0], dim=1).min() > 0.8
