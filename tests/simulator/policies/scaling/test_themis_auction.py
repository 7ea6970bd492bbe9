"""Auctions of accelerators, against all allotments of small cases, and leases by hand."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfcp.simulator.policies.base import Policy
from mfcp.simulator.policies.scaling.themis_auction import auction

GAINS = st.sampled_from([-np.inf, -1.0, 0.0, 0.3, 0.7, 1.0, 1.9])


@st.composite
def cases(draw):
    bidders, free = draw(st.integers(0, 4)), draw(st.integers(1, 8))
    gpus = np.array(sorted(draw(st.lists(st.integers(1, 5), min_size=3, max_size=3, unique=True))))
    return np.array([[draw(GAINS) for _ in gpus] for _ in range(bidders)]).reshape(bidders, 3), gpus, free


def total(gain, ways):
    return sum(own[way] for own, way in zip(gain, ways, strict=True) if way >= 0)


def need(gpus, ways):
    return sum(gpus[way] for way in ways if way >= 0)


def most(gain, gpus, free):
    allotments = itertools.product((-1, 0, 1, 2), repeat=len(gain))
    return max((total(gain, ways) for ways in allotments if need(gpus, ways) <= free), default=0.0)


@settings(max_examples=150)
@given(cases())
def test_no_allotment_has_a_larger_product_of_values(case):
    gain, gpus, free = case
    won = auction(gain, gpus, free, pays=False)
    assert need(gpus, won) <= free
    assert total(gain, won) == pytest.approx(most(gain, gpus, free))


@settings(max_examples=150)
@given(cases())
def test_a_winner_pays_what_it_takes_from_the_others(case):
    """Its part is the others' product with it, over that of an auction without it."""
    gain, gpus, free = case
    won, paid = auction(gain, gpus, free, pays=False), auction(gain, gpus, free)
    for bidder, way in enumerate(won):
        if way < 0:
            assert paid[bidder] == -1
            continue
        others = np.delete(gain, bidder, axis=0)
        part = math.exp(total(others, np.delete(won, bidder)) - most(others, gpus, free))
        assert part <= 1 + 1e-12
        fine = [g for g, own in zip(gpus, gain[bidder], strict=True) if own > 0 and g <= part * gpus[way] + 1e-9]
        assert (gpus[paid[bidder]] if paid[bidder] >= 0 else 0) == max(fine, default=0)


def test_who_is_alone_pays_nothing():
    assert auction(np.array([[0.1, 0.5]]), np.array([1, 2]), 2).tolist() == [1]


def decided(policy, demand, now, **columns):
    return policy.decide(demand([[1.0, 1.9]] * len(columns["job"]), [2], now=now, **columns))


def test_a_lease_is_kept_and_then_offered_again(demand):
    """Of two accelerators the first job has one for ten seconds; then the job that waited is worse off."""
    policy = Policy.build("themis_auction", lease_s=10.0, pays=False).start()
    first = decided(policy, demand, 0.0, job=[0])
    assert (first.chosen.tolist(), first.wake) == ([1], 10.0)
    waits = decided(policy, demand, 4.0, job=[0, 1], submit=[0.0, 4.0], chosen=[1, -1])
    assert (waits.chosen.tolist(), waits.wake) == ([1, -1], 10.0)
    after = decided(policy, demand, 10.0, job=[0, 1], submit=[0.0, 4.0], chosen=[1, -1], left=[60.0, 100.0])
    assert after.chosen[1] >= 0
    assert after.wake == 20.0


def test_only_the_worst_off_are_offered_what_is_free(demand):
    """Five jobs on one accelerator; the one that has waited for longest gets it, and nothing is left for chance."""
    policy = Policy.build("themis_auction")
    now = demand([[1.0]] * 5, [1], now=50.0, submit=[0.0, 10, 20, 30, 40])
    assert policy.start().decide(now).chosen.tolist() == [0, -1, -1, -1, -1]


def test_what_is_left_goes_to_others_by_chance(demand):
    """One of five is offered four accelerators and asks for one; three of the others get one each."""
    now = demand([[1.0]] * 5, [4], now=50.0, submit=[0.0, 10, 20, 30, 40])
    found = [Policy.build("themis_auction", seed=seed).start().decide(now).chosen for seed in range(12)]
    assert all(chosen[0] == 0 and (chosen >= 0).sum() == 4 for chosen in found)
    assert len({tuple(chosen) for chosen in found}) > 1
    again = Policy.build("themis_auction", seed=3).start().decide(now).chosen
    assert again.tolist() == found[3].tolist()


def test_by_chance_nobody_gets_more_than_it_asks_for(demand):
    now = demand([[1.0, 1.9, 3.6]] * 2, [7], now=50.0, submit=[0.0, 40.0])
    assert Policy.build("themis_auction").start().decide(now).chosen.tolist() == [2, 0]


def test_unfairness_is_the_time_over_that_alone_in_the_mean_crowd(demand):
    """The first was alone for ten seconds and with another for ten; both need 100 s more, of 100 and 50 at first."""
    decider = Policy.build("themis_auction").start()
    decider.decide(demand([[1.0]], [1]))
    decider.decide(demand([[1.0]] * 2, [1], now=10.0, submit=[0.0, 10.0], left=[100.0, 50.0]))
    now = demand([[1.0]] * 2, [1], now=20.0, submit=[0.0, 10.0], left=[100.0, 100.0])
    found = decider._unfairness(now, np.array([100.0, 100.0]))
    assert found == pytest.approx([120 / (100 * 1.5), 110 / (50 * 2)])
