"""Numbers and decisions in words."""

import numpy as np
import pytest
from platform_round import belief, explained, planned

from mfcp.platform.page import words


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0 s"), (3.14159, "3.14 s"), (119.0, "119 s"), (120.0, "2 min 0 s"), (-150.0, "-2 min 30 s"),
     (7199.6, "120 min 0 s"), (7200.0, "2 h 0 min"), (4e6, "1,111 h 7 min"), (None, "unknown"),
     (float("nan"), "unknown")],
)  # fmt: skip
def test_seconds(value, text):
    assert words.seconds(value) == text


def test_shares_times_counts_and_changes():
    assert (words.share(0.9451), words.share(None)) == ("94.5 %", "unknown")
    assert (words.when(0.0), words.when(None)) == ("1970-01-01 00:00 UTC", "never")
    assert (words.count(1, "task"), words.count(2000, "task")) == ("1 task", "2,000 tasks")
    assert words.change(100.0, 100.01) == "no change"
    assert words.change(100.0, 150.0) == "50 s (50.0 %) longer"
    assert words.change(150.0, 100.0) == "50 s (33.3 %) shorter"


def test_a_plan_says_how_much_faster_any_other_could_be():
    told = words.plan("feasible", 110.0, 0.1, 0.93, 0.9)
    assert "after 110 s." in told
    assert "more than 9.1 % faster" in told  # 100 of 110
    assert "93.0 % of the tasks are predicted to succeed, where 90.0 % are asked for." in told
    assert "No plan is faster" in words.plan("optimal", 110.0, 0.0, 0.93, 0.9)
    assert "It misses the asked reliability" in words.plan("short", 110.0, 0.0, 0.8, 0.9)
    assert "Nothing is known of reliability." in words.plan("optimal", 110.0, 0.0, None, None)


@pytest.mark.parametrize("seed", range(6))
def test_every_reason_is_a_number_of_the_explanation(seed):
    believed = belief(seed=seed, gamma=0.95)
    plan = planned(believed)
    for told in explained(believed, plan):
        lines = words.why(told)
        chosen, *others = sorted(
            (o for o in told.options if o.cost_change is not None), key=lambda o: (not o.chosen, o.cost_change)
        )
        assert lines[0].startswith(f"{told.task_id} goes to {chosen.cluster_id}")
        assert words.seconds(chosen.seconds) in lines[0]
        if not others:
            assert lines[1:] == ["No other cluster that is online may run it."]
            continue
        assert any(f"The next best is {others[0].cluster_id}" in line for line in lines)
        quickest = min([chosen, *others], key=lambda o: o.seconds)
        if quickest is chosen:
            assert f"fastest of the {words.count(len(others) + 1, 'cluster')}" in lines[1]
        elif quickest is not others[0]:
            assert lines[1].startswith(f"{quickest.cluster_id} would run it in {words.seconds(quickest.seconds)}, but")
        pays = "would pay as it is" in lines[-1]
        assert pays == (others[0].cost_change < 0)


def test_how_a_task_stands_is_told_by_its_last_attempt():
    one, two = ({"state": "over", "status": "node_fail", "cluster_id": "a", "number": 1},
                {"state": "handed", "status": None, "cluster_id": "b", "number": 2})  # fmt: skip
    assert words.run([]) == "not yet"
    assert words.run([one]) == "node fail"
    assert words.run([one, two]) == "waits in the queue on b, attempt 2"
    assert words.run([{**two, "state": "begun"}]) == "runs"
    done = {**one, "status": "succeeded"}
    assert words.run([done]) == "succeeded"
    assert words.run([done, two]) == "succeeded on a, attempt 1"  # the other one compares


def test_without_reliability_no_word_is_said_of_it():
    believed = belief(seed=1, gamma=0.0)
    unknown = type(believed)(**{**vars(believed), "reliability_known": False, "A": np.ones_like(believed.A)})
    for told in explained(unknown, planned(unknown)):
        assert "succe" not in " ".join(words.why(told))
