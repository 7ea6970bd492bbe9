"""Pessimism in proportion to the spread."""

from dataclasses import replace

import numpy as np
from rules.beliefs import belief

from mfcp.rules.point import Point
from mfcp.rules.upper_bound import UpperBound


def test_kappa_raises_times_and_lowers_reliabilities_by_so_many_deviations():
    believed = belief(log_sd=0.5, a_sd=0.05)
    plan = UpperBound().plan(believed, parameter=1.5, price=4.0)
    bounded = replace(believed, T=believed.T * np.exp(1.5 * 0.5), A=np.clip(believed.A - 1.5 * 0.05, 0, 1))
    np.testing.assert_array_equal(plan, Point().plan(bounded, parameter=0.0, price=4.0))


def test_a_cluster_whose_predictions_are_less_sure_gets_less_work():
    believed = belief(rounds=60, tasks=6, gamma=0.0)
    unsure = np.zeros_like(believed.log_sd)
    unsure[:, 1] = 1.0
    count = [
        (UpperBound().plan(replace(believed, log_sd=unsure), parameter=kappa, price=4.0) == 1).sum()
        for kappa in (0.0, 1.0)
    ]
    assert count[1] < 0.7 * count[0]
