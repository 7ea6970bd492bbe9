"""Tasks of a few clusters dealt out anew: exact where everything is looked at, never worse, and worth its time."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from matching.large.rounds import unrelated

from mfcp.matching import MatchingProblem, solve
from mfcp.matching.large import plan_search as searching
from mfcp.matching.large.plan_search import search
from mfcp.matching.large.pricing import price
from mfcp.matching.large.regrouping import regroup
from mfcp.matching.problem import SLACK, makespan, reliability


def dealt(problem, plan, backlog, together, nodes, total):
    """(makespan, plan) after regrouping over every pair of the round."""
    from mfcp.matching.large import annealing

    M, N = problem.T.shape
    empty = np.zeros(M * N)
    pairs = annealing.Pairs(
        np.arange(0, M * N + 1, M), np.tile(np.arange(M, dtype=np.int32), N), problem.T.T.ravel().copy(),
        problem.A.T.ravel().copy(), empty, empty, np.zeros((0, M * N)), np.zeros(M * N, np.int32), empty,
    )  # fmt: skip
    nothing = np.zeros((0, M))
    terms = annealing.Terms(
        1.0, 0.0, np.ones(M), backlog, np.zeros((M, 0)), nothing, nothing, 1.0, problem.gamma * N, -1.0, 1.0
    )
    own = np.arange(N) * M + plan
    before = float(makespan(plan, problem.T, None, backlog))
    after = regroup(pairs, terms, own, before, together, 1e-4, nodes, total, np.array([7], np.uint64))
    return after, own % M


rounds = st.builds(
    SimpleNamespace, M=st.integers(2, 4), N=st.integers(2, 7), seed=st.integers(0, 10**6), gamma=st.floats(0.0, 0.9),
    sigma=st.floats(0.0, 2.0), waits=st.booleans(),
)  # fmt: skip


def drawn(given):
    problem = unrelated(given.M, given.N, given.seed, sigma=given.sigma, gamma=0.0)
    most, least = problem.A.max(axis=0).mean(), problem.A.min(axis=0).mean()
    problem = problem.at(least + given.gamma * (most - least))
    backlog = np.zeros(given.M)
    if given.waits:
        backlog[0] = 0.9 * problem.T.min(axis=0).max()
    return MatchingProblem(problem.T, problem.A, problem.gamma, backlog=backlog)


@given(rounds)
@example(SimpleNamespace(M=2, N=2, seed=48, gamma=1e-8, sigma=0.0, waits=False))
@settings(max_examples=150, deadline=None)
def test_all_clusters_at_once_end_within_the_step_of_the_optimum(given):
    problem = drawn(given)
    plan = problem.A.argmax(axis=0)  # reaches any gamma that can be reached
    after, own = dealt(problem, plan, problem.backlog, given.M, 10**6, 10**5)
    assert after == pytest.approx(float(makespan(own, problem.T, None, problem.backlog)))
    assert reliability(own, problem.A) >= problem.gamma - 1e-9
    least, strict = (float(solve(problem.at(problem.gamma + more), "exact").objective) for more in (0.0, 10 * SLACK))
    assert least * (1 - 1e-9) <= after <= strict * (1 + 2e-4)


@given(rounds, st.integers(2, 3), st.sampled_from([1, 20, 1000]))
@settings(max_examples=150, deadline=None)
def test_a_plan_never_gets_worse_and_keeps_its_reliability(given, together, nodes):
    problem = drawn(given)
    plan = problem.A.argmax(axis=0)
    after, own = dealt(problem, plan, problem.backlog, min(together, given.M), nodes, 10**4)
    assert after <= float(makespan(plan, problem.T, None, problem.backlog))
    assert after == pytest.approx(float(makespan(own, problem.T, None, problem.backlog)))
    assert reliability(own, problem.A) >= problem.gamma - 1e-9


def test_searches_of_few_entries_end_with_it(monkeypatch):
    ratios = []
    for seed in range(8):
        problem = unrelated(10, 100, seed, sigma=1.2, gamma=0.85)
        proposed = price(problem, time_limit=60.0)
        spans = []
        for many in (searching.REGROUPED, 0):
            monkeypatch.setattr(searching, "REGROUPED", many)
            spans.append(float(makespan(search(problem, proposed, time_limit=60.0), problem.T)))
        ratios.append(spans[0] / spans[1])
        monkeypatch.undo()
    assert max(ratios) <= 1.0
    assert min(ratios) < 1.0
