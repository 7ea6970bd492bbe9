"""Gittins index."""

import itertools

import numpy as np
import pytest

from mfcp.simulator.policies.ordering.gittins import gittins_index


def test_the_index_is_the_best_chance_per_service():
    service = np.array([1.0, 2.0, 7.0])
    for attained in (0.0, 1.5, 2.0):
        left = service[service > attained] - attained
        ratios = [np.mean(left <= d) / np.mean(np.minimum(left, d)) for d in np.linspace(0.1, 8, 800)]
        assert gittins_index(service, attained) == pytest.approx(max(ratios), rel=2e-2)
        assert gittins_index(service, attained) >= max(ratios) - 1e-12
    assert gittins_index(service, 7.0) == 0.0


def test_no_order_of_whole_jobs_is_better_where_service_is_one_of_two_values(ends):
    """Jobs take 1 or 10: once one has lasted longer than 1, every fresh one is the better bet."""
    jobs = [(0, 1, 10), (0, 1, 1), (0, 1, 1), (0, 1, 10)]
    found = np.mean(ends("gittins", jobs, levels=4))
    blind = [np.mean(np.cumsum([jobs[k][2] for k in order])) for order in itertools.permutations(range(4))]
    assert found < np.mean(blind)
