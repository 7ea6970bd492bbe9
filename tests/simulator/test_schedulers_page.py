"""The page on the survey's schedulers is what its numbers give, and knows every policy."""

import copy

import numpy as np
import pytest

from benchmarks.schedulers import HELD, NUMBERS, PAGE, ROWS, compared, page, time_to_converge, unfairness
from mfcp.border.json_text import read_json
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Policy
from mfcp.simulator.simulation import import_policies, simulate


def test_the_page_is_generated():
    assert page(read_json(NUMBERS)) == PAGE.read_text(encoding="utf-8"), "run `python benchmarks/schedulers.py --page`"


def test_changed_numbers_change_the_page():
    numbers = copy.deepcopy(read_json(NUMBERS))
    row = ROWS[0]
    before = compared(numbers, row)
    values = numbers["found"][row.on][row.ours][row.metric]
    values[:] = [2 * value for value in values]
    assert compared(numbers, row)[:3] == pytest.approx([2 * value for value in before[:3]])
    assert page(numbers) != PAGE.read_text(encoding="utf-8")


def test_every_policy_says_what_it_was_held_to():
    import_policies()
    own = {name for name, member in Policy.members.items() if member.__module__.startswith("mfcp.")}
    assert own == set(HELD)


def test_a_job_converges_within_the_stretch_in_which_it_has_done_that_part():
    """Nine tenths of the fall of 1 / (1 + 9 p) lie before p = 0.81 / 0.19 / 9; the first job is stopped once."""
    import_policies()
    part = 0.81 / 0.19 / 9
    jobs = Jobs.simple(np.array([0.0, 2.0]), np.ones(2), np.array([10.0, 4.0]))
    outcome = simulate(jobs, Cluster.parse("1"), Policy.build("srtf"))
    assert outcome.finished.tolist() == [14, 6]
    assert time_to_converge(outcome) == pytest.approx([10 * part + 4, 4 * part])


def test_an_even_share_is_fair():
    """Two jobs of 10 s that take turns on one accelerator end at about 20 s: twice as long, twice as crowded."""
    import_policies()
    jobs = Jobs.simple(np.zeros(2), np.ones(2), np.full(2, 10.0))
    first = simulate(jobs, Cluster.parse("1"), Policy.build("fifo"))
    assert unfairness(first) == pytest.approx([0.5, 20 / 10 / 1.5])
    alone = simulate(Jobs.simple(np.zeros(1), np.ones(1), np.ones(1)), Cluster.parse("1"), Policy.build("fifo"))
    assert unfairness(alone).tolist() == [1]
