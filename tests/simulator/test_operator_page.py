"""The operator study: arrivals, luck, plans that see the queues, and what its page says of numbers."""

import itertools
import re

import numpy as np
import pandas as pd
import pytest

from benchmarks.operator_page import PAGE, Runs, interval, page, read, verdict
from benchmarks.operator_study import GAMMAS, LOADS, METHODS, NUMBERS, POLICIES, TRUTH, Arrivals, occupied
from mfcp.simulator.simulation import import_policies

import_policies()


def numbers(log, factor, settings=4, seeds=3):
    """Runs in which mfcp_x needs `factor` of everybody's time, and plans that see queues half of it."""
    rng, rows = np.random.default_rng(1), []
    ways = [("round", label) for label in (*METHODS, TRUTH)]
    ways += [(way, label) for way in ("queue", "zeta", *GAMMAS) for label in ("tsm_log", "mfcp_x", TRUTH)]
    for setting, seed, load, policy, (way, label) in itertools.product(
        "ABCDEFG"[:settings], range(seeds), LOADS, POLICIES, ways
    ):
        jct = 100 * np.exp(0.01 * rng.standard_normal()) * (factor if label == "mfcp_x" else 1)
        jct *= 0.5 if way == "queue" else 1
        rows.append({"log": log, "setting": setting, "seed": seed, "load": load, "policy": policy, "method": label,
                     "plan": way, "excess": jct / 1000, "jct": jct, "p95": 2 * jct, "lost": 1.0})  # fmt: skip
    return Runs(pd.DataFrame(rows))


def test_the_page_says_what_the_numbers_say():
    text = " ".join(page([numbers("one", 0.8), numbers("two", 1.0)]).split())
    assert re.search(
        r"Better predictors and the rule: mfcp_x over tsm_log: one 0\.\d\d \[[^]]*\], shorter; two \S+ \[", text
    )
    assert re.search(r"predictions of mfcp_x: over its rounds' plans: one 0\.50 \[[^]]*\], shorter; two 0\.50", text)
    assert "4 settings of one (3 seeds each) and 4 settings of two (3 seeds each)" in text
    assert text.count("no significant difference") >= 1


@pytest.mark.skipif(not any(NUMBERS.glob("*.parquet")), reason="the numbers of the study are not here")
def test_the_page_is_generated():
    assert page(read()) == PAGE.read_text(encoding="utf-8"), "run `python -m benchmarks.operator_page`"


def test_an_interval_is_over_settings():
    values = np.array([0.0, 1.0, 2.0, 3.0])
    mean, low, high = interval(values)
    assert mean == 1.5
    assert (low, high) == pytest.approx((1.5 - 1.96 * 0.559, 1.5 + 1.96 * 0.559), abs=0.15)
    assert verdict(np.array([-0.2, -0.1, -0.3])) == "shorter"
    assert verdict(np.array([-0.2, 0.1, 0.3])) == "no significant difference"


def arrivals(T, A, rounds, best, load=0.5):
    return Arrivals(rounds, np.asarray(T, float), np.asarray(A, float), best, load, 3)


def test_the_load_of_the_best_plan_is_what_was_asked_for():
    rounds, best = np.arange(200).reshape(40, 5), np.tile([0, 1, 0, 1, 0], (40, 1))
    T = np.full((2, 200), 600.0)
    found = [arrivals(T, np.ones((2, 200)), rounds, best, load).run(best, T, "fifo")["jct"] for load in (0.2, 2.0)]
    assert 600 <= found[0] < 1.3 * 600
    assert found[1] > 3 * 600


def test_failures_are_paid_for_until_every_task_ends():
    rounds, best, T = np.arange(400).reshape(80, 5), np.zeros((80, 5), np.int64), np.full((1, 400), 600.0)
    sure, risky = (
        arrivals(T, np.full((1, 400), a), rounds, best, 0.05).run(best, T, "srsf") for a in (1.0, 0.5)
    )  # fmt: skip
    assert sure["lost"] == 0.0
    assert risky["jct"] == pytest.approx(occupied(600.0, 0.5), rel=0.15)  # hardly anything waits
    assert occupied(600.0, 0.5) == 900.0


def test_the_luck_of_a_task_is_the_same_under_every_plan():
    rounds, T, A = np.arange(20).reshape(20, 1), np.full((2, 20), 10.0), np.full((2, 20), 0.5)
    come = arrivals(T, A, rounds, np.zeros((20, 1), np.int64), 0.001)
    lost = {come.run(plan, T, "fifo")["lost"] for plan in np.random.default_rng(0).integers(2, size=(5, 20, 1))}
    assert max(lost) - min(lost) < 1e-12


def test_one_who_sees_the_queues_chooses_the_least_sum_of_completion_times():
    rng = np.random.default_rng(1)
    rounds, T = np.arange(3).reshape(1, 3), rng.uniform(50, 500, (2, 3))
    come = arrivals(T, np.ones((2, 3)), rounds, np.zeros((1, 3), np.int64))
    come.gpus[:] = 16  # one at a time
    allowed = np.array([[True, True, True], [True, False, True]])
    plan = come.dispatch(T, np.ones((2, 3)), "srsf", allowed)
    every = {
        where: come.run(np.array([where]), T, "srsf")["jct"]
        for where in itertools.product((0, 1), repeat=3) if allowed[where, range(3)].all()
    }  # fmt: skip
    longest = np.argsort(-np.where(allowed, T, np.inf).min(axis=0), kind="stable")
    chosen: dict[int, int] = {}
    for k in longest:  # the same choices by looking at whole plans, tasks that have not come yet left out
        alone = {}
        for i in np.flatnonzero(allowed[:, k]):
            where, total = chosen | {int(k): int(i)}, 0.0
            for cluster in (0, 1):
                seconds = sorted(T[cluster, j] for j, own in where.items() if own == cluster)
                total += np.cumsum(seconds).sum()
            alone[int(i)] = total
        chosen[int(k)] = min(alone, key=alone.get)
    assert plan.tolist() == [[chosen[k] for k in range(3)]]
    assert min(every.values()) <= every[tuple(plan[0])] <= 1.5 * min(every.values())
