"""The operator study's page is what its numbers give; its parts do what it says."""

import copy

import numpy as np

from benchmarks.operator_study import NUMBERS, PAGE, Arrivals, greedy, page, verdict
from mfcp.files import read_json
from mfcp.simulator.simulation import import_policies


def test_the_page_is_generated():
    assert page(read_json(NUMBERS)) == PAGE.read_text(encoding="utf-8"), (
        "run `python benchmarks/operator_study.py --page`"
    )


def test_changed_numbers_change_the_page():
    numbers = copy.deepcopy(read_json(NUMBERS))
    numbers["runs"]["own"]["jct"] = " ".join(reversed(numbers["runs"]["own"]["jct"].split()))
    assert page(numbers) != PAGE.read_text(encoding="utf-8")


def test_a_greedy_plan_by_hand():
    T = np.array([[[4.0, 1.0, 3.0], [9.0, 9.0, 3.5]]])
    # Longest first: the first task to cluster 0, the third to cluster 1, the second where it ends first.
    assert greedy(T, np.ones(T.shape, bool)).tolist() == [[0, 0, 1]]
    allowed = np.ones(T.shape, bool)
    allowed[0, 0, 0] = False
    assert greedy(T, allowed)[0, 0] == 1


def test_the_load_of_the_best_plan_is_what_was_asked_for():
    import_policies()
    rounds = np.arange(200).reshape(40, 5)
    T, A = np.full((2, 200), 600.0), np.ones((2, 200))
    best = np.tile([0, 1, 0, 1, 0], (40, 1))
    found = [Arrivals(rounds, T, A, best, load, 3).run(best, T, "fifo", 0)["jct"] for load in (0.2, 2.0)]
    assert 600 <= found[0] < 1.3 * 600
    assert found[1] > 3 * 600


def test_failures_are_paid_for():
    import_policies()
    rounds, best = np.arange(100).reshape(20, 5), np.zeros((20, 5), np.int64)
    T = np.full((1, 100), 600.0)
    sure, risky = (Arrivals(rounds, T, np.full((1, 100), a), best, 0.5, 1).run(best, T, "srsf", 0) for a in (1.0, 0.7))
    assert sure["lost"] == 0.0
    assert risky["lost"] > 1.0
    assert risky["jct"] > sure["jct"]


def test_a_verdict_needs_an_interval_on_one_side():
    rng = np.random.default_rng(0)
    assert verdict(0.8 * np.exp(0.01 * rng.standard_normal((3, 20))), "less", "more") == "less"
    assert verdict(np.exp(0.5 * rng.standard_normal((3, 20))), "less", "more") == "no sure difference"
