"""What the search looks at."""

from matching.large.moderate_rounds import unrelated

from mfcp.matching.large.plan_search import search
from mfcp.matching.large.pricing import price
from mfcp.matching.problem import MatchingProblem, makespan


def test_long_tasks_are_set_apart():
    problem = unrelated(8, 100, 2, gamma=0.8)
    T = problem.T.copy()
    T[:, :3] *= T[:, 3:].min(axis=0).sum() / T[:, :3].min(axis=0)  # each as long as all the others on one cluster
    problem = MatchingProblem(T, problem.A, 0.8)
    pricing = price(problem, time_limit=10.0)
    plan = search(problem, pricing, time_limit=60.0)
    apart = min(
        T[[a, b, c], [0, 1, 2]].max() for a in range(8) for b in range(8) for c in range(8) if len({a, b, c}) == 3
    )
    assert makespan(plan, T) == apart
