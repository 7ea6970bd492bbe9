"""Moments of a belief, and that no other plan is expected to cost less."""

import numpy as np
import pytest
from rules.beliefs import belief

from mfcp.rules.expected_cost import WIDEST, ExpectedCost, moments_of
from mfcp.rules.priced import Priced


def test_times_are_log_normal():
    believed = belief(rounds=1, log_sd=0.6, a_sd=0.03)
    found = moments_of(believed, 0.01, believed.own_sd)
    draws = believed.T[0, 0, 0] * np.random.default_rng(0).lognormal(0, 0.6, 1_000_000)
    assert found.time[0, 0, 0] == pytest.approx(draws.mean(), rel=5e-3)
    assert found.time_variance[0, 0, 0] == pytest.approx(draws.var(), rel=2e-2)
    assert found.reliability_variance[0, 0, 0] == pytest.approx(0.03**2)
    assert found.gamma[0] == pytest.approx(0.86)


def test_a_spread_beyond_measure_is_cut():
    wide, widest = (moments_of(own, 0.0, own.own_sd) for own in (belief(log_sd=9.0), belief(log_sd=WIDEST)))
    np.testing.assert_array_equal(wide.time_variance, widest.time_variance)


def test_moments_are_those_that_the_rule_charges_unless_told_otherwise():
    wide, charged = (moments_of(belief(log_sd=sd), 0.0) for sd in (0.7, 0.2))
    np.testing.assert_array_equal(wide.time_variance, charged.time_variance)
    assert ExpectedCost().most == 0.2


def test_no_more_is_charged_than_it_may():
    plans = [
        ExpectedCost(most=most).plan(belief(rounds=60, log_sd=1.0, own_sd=own), parameter=0.0, price=4.0)
        for most, own in ((0.2, 0.7), (2.0, 0.2), (2.0, 0.7))
    ]
    np.testing.assert_array_equal(*plans[:2])
    assert (plans[0] != plans[2]).any()


def test_without_spread_it_is_the_priced_rule():
    believed = belief(log_sd=0.0, a_sd=0.0)
    plans = (rule.plan(believed, parameter=0.0, price=4.0) for rule in (ExpectedCost(), Priced()))
    np.testing.assert_array_equal(*plans)


def test_it_charges_for_what_clusters_do_not_share_or_for_the_whole_error():
    """Each as if the other were not there; and the two part ways."""
    believed = belief(rounds=60, log_sd=0.9, own_sd=0.1, gamma=0.9)
    rules = {kind: ExpectedCost(charges=kind, most=WIDEST) for kind in ("own", "total")}
    plans = {kind: rule.plan(believed, parameter=0.0, price=4.0) for kind, rule in rules.items()}
    for kind, log_sd in (("own", 0.1), ("total", 0.9)):
        certain = belief(rounds=60, log_sd=log_sd, gamma=0.9)
        np.testing.assert_array_equal(plans[kind], rules["own"].plan(certain, parameter=0.0, price=4.0))
    assert (plans["own"] != plans["total"]).any()
