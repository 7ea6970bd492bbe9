"""What the printed algorithms do, measured: the reason why the package does something else."""

from matching.instances import rounds

from mfcp.matching.reference.literal import softmax_descent
from mfcp.matching.relaxed.argmin import solve_relaxed
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
