"""Steps that policies of sizes share."""

from dataclasses import replace

import numpy as np

from mfcp.simulator.policies.deciding import fill, grow


def test_jobs_in_turn_take_what_they_want_while_it_fits(demand):
    seen = demand([[1.0, 2.0, 3.0], [1.0, 0.0, 0.0], [3.0, 2.0, 1.0]], [5])  # sizes 1, 2 and 4
    assert fill(seen, np.array([0, 2, 1]), seen.rate).tolist() == [2, -1, 0]
    assert fill(seen, np.array([1, 2, 0]), seen.rate).tolist() == [1, 0, 0]
    runs = replace(seen, chosen=np.array([1, -1, -1]))  # stays as it is, though it would be faster elsewhere
    as_now = np.where(np.arange(len(runs.gpus)) == runs.chosen[:, None], np.inf, runs.rate)
    assert fill(runs, np.array([0, 2, 1]), as_now).tolist() == [1, 0, 0]
    assert fill(seen, np.array([1, 2]), seen.rate, np.array([2, -1, -1])).tolist() == [2, 0, -1]  # what others hold


def test_nobody_is_looked_at_when_nothing_is_free(demand):
    def order():
        yield from (0, 1)
        raise AssertionError("asked for a third job")

    seen = demand([[1.0, 2.0, 3.0]] * 3, [5])  # 4 and 1 of 5
    assert fill(seen, order(), seen.rate).tolist() == [2, 0, -1]


def test_growth_takes_the_best_step_per_accelerator(demand):
    seen = demand([[1.0, 1.9, 2.0], [1.0, 1.2, 1.3]], [4])
    worth = np.column_stack([seen.rate, np.zeros(2)])
    assert grow(seen, np.full(2, -1), worth).tolist() == [1, 1]  # 1 and 1, then .9, then .2
    assert grow(demand([[1.0, 1.9]], [1]), np.array([-1]), np.array([[1.0, 1.9, 0.0]])).tolist() == [0]


def test_nothing_grows_that_is_worth_nothing_more(demand):
    seen = demand([[1.0, 1.0, 0.0]], [4])
    assert grow(seen, np.full(1, -1), np.array([[1.0, 1.0, -np.inf, 0.0]])).tolist() == [0]
