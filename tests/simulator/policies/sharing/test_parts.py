"""Max-min fairness in parts."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from mfcp.simulator.policies.base import Policy


def least(now, share):
    return ((now.speed * share).sum(axis=1) / now.equal_split).min()


@pytest.mark.parametrize("seed", range(5))
def test_one_part_is_the_whole_and_more_are_no_better(moment, seed):
    rng = np.random.default_rng(seed)
    now = moment(rng.uniform(0.2, 2, (12, 3)), [3, 2, 4])
    whole = least(now, Policy.build("max_min").solve(now))
    assert least(now, Policy.build("max_min_in_parts", parts=1).solve(now)) == pytest.approx(whole, rel=1e-6)
    for parts in (2, 4, 20):
        again = replace(now, random=Random(seed))
        share = Policy.build("max_min_in_parts", parts=parts).solve(again)
        assert (share.sum(axis=1) <= 1 + 1e-6).all()
        assert (now.gpus @ share <= now.size + 1e-6).all()
        assert least(now, share) <= whole * (1 + 1e-6)


def test_equal_jobs_lose_nothing(moment):
    now = moment(np.ones((8, 2)), [2, 2])
    share = Policy.build("max_min_in_parts").solve(now)
    assert share.sum(axis=1) == pytest.approx(np.full(8, 0.5), abs=1e-6)
