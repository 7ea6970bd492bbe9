"""HiGHS agrees with enumeration, within its tolerance and where it stumbles."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st
from matching.agreement import agrees
from matching.platforms import built, platforms

from mfcp.errors import SolverError
from mfcp.matching.planning import solve
from mfcp.matching.problem import Capacity, MatchingProblem


@given(platforms(parallel=False), st.sampled_from([None, None, 0.5, 30.0]))
@settings(max_examples=120)
def test_highs_agrees_with_enumeration(given, price):
    problem = built(given)
    if problem is not None:
        agrees(problem, price)


@pytest.mark.slow
@given(platforms(most_clusters=4, most_tasks=6, parallel=False), st.sampled_from([None, None, 0.5, 30.0]))
@settings(max_examples=600)
def test_highs_agrees_with_enumeration_on_many_more(given, price):
    problem = built(given)
    if problem is not None:
        agrees(problem, price)


@pytest.mark.parametrize("near", [1e-6, 1e-7, 1e-8, 2e-9, 0.9e-9, -1e-8])
def test_highs_tolerance_lets_no_plan_through(near):
    """Limits that the fastest plan misses by less than HiGHS's 1e-6: the next plan, or none, as enumeration says."""
    T = np.array([[1.0, 1.0, 1.0], [3.0, 3.0, 3.0]])
    A = np.array([[0.8, 0.8, 0.8], [0.9, 0.9, 0.9]])
    agrees(MatchingProblem(T, A, 0.8 + near), None)
    agrees(MatchingProblem(T, A, 0.9 + near), None)
    for limit in (2.0 - near, 3.0 - near):
        agrees(MatchingProblem(T, A, 0.0, capacities=[Capacity("use", 1.0, [limit, np.inf])]), None)
        agrees(MatchingProblem(T, A, 0.0, capacities=[Capacity("use", 1.0, limit / 2)]), None)
        agrees(MatchingProblem(T, A, 0.0, deadline=np.array([np.inf, limit, limit])), None)


def test_a_round_of_eight_orders_of_magnitude():
    rng = np.random.default_rng(3)
    T = 10.0 ** rng.uniform(-4, 4, (4, 6))
    agrees(MatchingProblem(T, rng.uniform(0.6, 1, (4, 6)), 0.8), None)
    agrees(MatchingProblem(T, rng.uniform(0.6, 1, (4, 6)), 0.8, backlog=10.0 ** rng.uniform(-4, 4, 4)), None)


def test_where_highs_breaks_it_is_asked_again_without_presolve(monkeypatch):
    """As in `vector::reserve`, which it raised out of a sub-MILP."""
    rng = np.random.default_rng(4)
    problem = MatchingProblem(rng.lognormal(size=(3, 9)), rng.uniform(0.7, 1.0, (3, 9)), 0.85)
    expected = solve(problem, "milp")
    real = scipy.optimize.milp

    def breaks(*given, options, **more):
        if options["presolve"] or always:
            raise ValueError("vector::reserve")
        return real(*given, options=options, **more)

    monkeypatch.setattr(scipy.optimize, "milp", breaks)
    always = False
    again = solve(problem, "milp")
    assert again.status == expected.status == "optimal"
    assert again.objective == pytest.approx(float(expected.objective))
    always = True
    with pytest.raises(SolverError, match=r"HiGHS broke on a \(3, 9\) round: vector::reserve"):
        solve(problem, "milp")


LONG = """
import os, signal, threading
import numpy as np
from mfcp.errors import guarded
from mfcp.matching.planning import solve
from mfcp.matching.problem import MatchingProblem

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a shell's background jobs
rng = np.random.default_rng(0)
problem = MatchingProblem(rng.lognormal(3, 1, (30, 400)), rng.uniform(0.6, 1, (30, 400)), 0.8)
threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
raise SystemExit(guarded(lambda: solve(problem, "milp", time_limit=1000)))
"""


def test_an_interrupt_ends_it_before_its_time():
    ended = subprocess.run([sys.executable, "-c", LONG], capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == 130
    assert "interrupted" in ended.stderr
    assert "Traceback" not in ended.stderr
