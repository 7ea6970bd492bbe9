"""The full-size study at a small size: its pieces on instances whose answers are known."""

import numpy as np
import pytest

from benchmarks.dede import traffic
from benchmarks.dede.cluster_scheduling import MaxMin, draw, exact_max_min, filled
from benchmarks.dede.full import drawn_jobs, followed, of_kinds, pinned, shares
from mfcp.matching.decomposition.alternating_directions import iterate


def test_a_network_has_the_links_that_were_asked_for():
    network = traffic.draw(3, 1 / 40, links=240)
    assert len(network.c) == 240
    with_fewer = traffic.draw(3, 1 / 40)
    assert len(with_fewer.c) < 240
    edges = traffic.with_more(np.array([(1, 0), (2, 1)]), 3, np.random.default_rng(0))
    assert sorted(map(tuple, edges.tolist())) == [(1, 0), (2, 0), (2, 1)]


def test_pinned_flows_are_feasible_and_no_better_than_the_optimum():
    network = traffic.draw(0, 1 / 40)
    for kind, utilisation in ((traffic.TotalFlow, False), (traffic.Utilisation, True)):
        blocks = kind(network)
        best = blocks.quality(traffic.exact(network, utilisation=utilisation))
        entries = pinned(network, blocks, utilisation)
        assert 0 < blocks.quality(entries) <= best * (1 + 1e-6)
        sent = blocks.flow(entries).sum(axis=1)
        assert (sent <= network.d * (1 + 1e-9)).all()


def test_the_best_point_is_kept_with_its_quality():
    jobs = draw(0, 1 / 32)
    blocks = MaxMin(jobs)
    trace, point, _, count = followed(blocks, iterate(blocks, blocks.cold()), np.inf, 200)
    assert count == 200
    assert [q for _, q in trace] == sorted(q for _, q in trace)
    assert blocks.quality(point) == pytest.approx(trace[-1][1])
    optimum = blocks.quality(exact_max_min(jobs))
    cells = shares(trace, optimum)
    assert float(cells[-2]) == pytest.approx(trace[-1][1] / optimum, abs=1e-4)


def test_jobs_are_of_the_published_number_of_types_and_kinds():
    kinds, jobs, active = drawn_jobs(0)
    assert kinds.s.shape == (456, 2588)
    assert jobs.s.shape == (456, 1750)
    np.testing.assert_array_equal(jobs.s, kinds.s[:, active])
    np.testing.assert_array_equal(of_kinds(kinds, active).g, jobs.g)


def test_the_greedy_rule_keeps_every_limit_and_leaves_no_job_without():
    for seed in range(3):
        jobs = draw(seed, 1 / 32)
        x = filled(jobs)
        assert (x >= 0).all()
        assert (x @ jobs.g <= jobs.W + 1e-9).all()
        assert (x.sum(axis=0) <= 1 + 1e-9).all()
        assert (x[jobs.s == 0] == 0).all()
        blocks = MaxMin(jobs)
        assert blocks.quality(x) <= blocks.quality(exact_max_min(jobs)) * (1 + 1e-6)
        given = (jobs.s * x).sum(axis=0)
        hungry = (x.sum(axis=0) < 1 - 0.03) & (given < given.mean())
        left = jobs.W - x @ jobs.g
        assert all((left[jobs.s[:, j] > 0] < jobs.g[j] / 20).all() for j in np.flatnonzero(hungry))
