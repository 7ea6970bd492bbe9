"""Groups of jobs that are interleaved, against all matchings and by hand."""

from functools import cache

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfcp.errors import SettingsError
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Policy
from mfcp.simulator.policies.colocation.muri import _Cycles, heaviest_matching
from mfcp.simulator.policies.stages import interleaved_s
from mfcp.simulator.simulation import import_policies, simulate

import_policies()


def weight_of(weight, mate):
    return sum(weight[i, j] for i, j in mate.items() if i < j)


def best_by_trying(weight):
    """The first of those left is matched with each of the others, or with none."""

    @cache
    def best(left):
        if not left:
            return 0.0
        first, others = left[0], left[1:]
        pairs = [(weight[first, other], tuple(each for each in others if each != other)) for other in others]
        return max([best(others), *(own + best(rest) for own, rest in pairs if own > 0)])

    return best(tuple(range(len(weight))))


def drawn(seed, most):
    rng = np.random.default_rng(seed)
    g = int(rng.integers(1, most + 1))
    values = rng.choice([0.0, 0.25, 0.5, 1.0], (g, g)) if seed % 2 else rng.random((g, g)) * (rng.random((g, g)) < 0.7)
    return np.triu(values, 1)


@pytest.mark.parametrize("seed", range(60))
def test_no_matching_weighs_more(seed):
    weight = drawn(seed, 9)
    mate = heaviest_matching(weight)
    assert all(mate[other] == one for one, other in mate.items())
    assert weight_of(weight, mate) == pytest.approx(best_by_trying(weight), abs=1e-8)


@pytest.mark.parametrize("seed", range(8))
def test_large_matchings_weigh_as_much_as_those_of_another_library(seed):
    weight = drawn(seed, 60)
    graph = nx.Graph()
    graph.add_weighted_edges_from((i, j, weight[i, j]) for i, j in zip(*np.nonzero(weight), strict=True))
    theirs = sum(weight[min(pair), max(pair)] for pair in nx.max_weight_matching(graph))
    assert weight_of(weight, heaviest_matching(weight)) == pytest.approx(theirs, rel=1e-6, abs=1e-12)


def groups(found):
    """Jobs that share accelerators, by the accelerators."""
    shared = {}
    for job, holds in enumerate(found.holds):
        if holds.any():
            shared.setdefault(tuple(np.flatnonzero(holds).tolist()), []).append(job)
    return shared


def test_nobody_shares_where_all_fit(present):
    found = Policy.build("muri_l").start().decide(present([2, 2, 4], [8]))
    assert groups(found) == {(0, 1, 2, 3): [2], (4, 5): [0], (6, 7): [1]}
    assert found.step.tolist() == [3.0] * 3


def test_no_more_share_than_have_to(present):
    found = Policy.build("muri_l", splits=False).start().decide(present([1] * 6, [4]))
    assert sorted(map(len, groups(found).values())) == [1, 1, 2, 2]


def test_who_runs_stays_where_it_is_unless_another_would_find_no_room(present):
    held = np.zeros((2, 8), bool)
    held[0, [2, 3]] = held[1, [4, 5]] = True
    stays = Policy.build("muri_l").start().decide(present([2, 2, 2], [4, 4], holds=[*held, [False] * 8]))
    assert groups(stays) == {(2, 3): [0], (4, 5): [1], (0, 1): [2]}
    moves = Policy.build("muri_l").start().decide(present([2, 2, 4], [4, 4], holds=[*held, [False] * 8]))
    assert groups(moves) == {(0, 1, 2, 3): [2], (4, 5): [0], (6, 7): [1]}


def test_jobs_of_other_resources_share(present):
    """Two that load and two that compute, on two accelerators: one of each is faster together."""
    stages = [[4.0, 0, 0], [4.0, 0, 0], [0, 4.0, 0], [0, 4.0, 0]]
    now = present([1] * 4, [2], stages=stages, step=[4.0] * 4, overhead=[1.0, 2, 4, 8])
    found = Policy.build("muri_l", slower=(1.25, 1.5, 2.0)).start().decide(now)
    assert sorted(sorted(now.stages[job].argmax() for job in own) for own in groups(found).values()) == [[0, 1], [0, 1]]
    assert found.step.tolist() == [5.0] * 4
    assert sorted(set(found.overhead)) in ([5.0, 10.0], [6.0, 9.0])  # of both


def test_a_group_that_takes_longer_than_one_after_another_runs_apart(present):
    now = present([1, 1], [1], stages=[[0, 3.0, 0]] * 2, left=[20.0, 10.0])
    found = Policy.build("muri_s").start().decide(now)
    assert found.step.tolist() == [np.inf, 3.0]
    found = Policy.build("muri_s", splits=False, slower=(1.5, 1.5, 1.5)).start().decide(now)
    assert found.step.tolist() == [9.0, 9.0]


def test_who_comes_first_runs_where_groups_are_split(present):
    """All of them only compute. One of two accelerators would fit beside the first, but comes after three of one."""
    now = present([1, 2, 1, 1, 1], [3], stages=[[0, 3.0, 0]] * 5, left=[1.0, 3.75, 6, 7, 8])
    found = Policy.build("muri_s").start().decide(now)
    assert np.isfinite(found.step).tolist() == [True, False, True, True, False]


@pytest.mark.parametrize("most", [2, 3, 4])
def test_worth_is_work_by_seconds(present, most):
    rng = np.random.default_rng(most)
    now = present([1] * 9, [4], stages=rng.choice([0.5, 1.0, 2.0], (9, 3)))
    cycles = _Cycles(most, (1.5, 2.0, 3.0))
    cycles.see(now)
    groups = [[0], [1, 2], [3], [4], [5, 6, 7], [8]]
    for worth in (cycles.worth(groups), cycles.worth(groups)):  # once computed, once kept
        for i, j in np.ndindex(worth.shape):
            both = groups[i] + groups[j]
            if i < j and len(both) <= most:
                seconds = interleaved_s(now.stages[None, both])[0] * (1.5, 2.0, 3.0)[len(both) - 2]
                assert worth[i, j] == pytest.approx(now.stages[both].sum() / seconds)
            else:
                assert worth[i, j] == 0


def test_nobody_is_faster_together_than_alone(present):
    """Stages that take less than an iteration leave something out."""
    now = present([1, 1], [1], stages=np.full((2, 3), 0.1), step=[3.0, 5.0])
    assert Policy.build("muri_l").start().decide(now).step.tolist() == [5.0, 5.0]


@settings(max_examples=60)
@given(seed=st.integers(0, 10_000))
def test_groups_are_of_one_size_and_no_larger_than_need_be(present, seed):
    rng = np.random.default_rng(seed)
    k, sizes = int(rng.integers(1, 25)), rng.choice([2, 4, 8], rng.integers(1, 4)).tolist()
    gpus = rng.choice([each for each in (1, 2, 4, 8) if each <= sum(sizes)], k)
    stages = rng.choice([0.1, 1.0, 2.0], (k, 3))
    now = present(gpus, sizes, stages=stages, step=stages.sum(axis=1), left=rng.uniform(1, 9, k) * 100)
    policy = Policy.build(str(rng.choice(["muri_s", "muri_l"])), most=int(rng.integers(1, 5)), splits=bool(seed % 2))
    found = policy.start().decide(now)
    held = groups(found)
    assert held
    assert found.holds.sum(axis=1)[np.isfinite(found.step)].tolist() == gpus[np.isfinite(found.step)].tolist()
    assert sum(len(places) for places in held) == found.holds.any(axis=0).sum()  # groups are apart
    assert found.step[~found.holds.any(axis=1)].tolist() == [np.inf] * (~found.holds.any(axis=1)).sum()
    for places, jobs in held.items():
        assert len(jobs) <= policy.most
        assert set(gpus[jobs]) == {len(places)}
        if len(jobs) > 1:
            seconds = interleaved_s(stages[None, jobs])[0] * policy.slower[len(jobs) - 2]
            assert found.step[jobs] == pytest.approx(seconds)
            assert seconds <= now.step[jobs].sum() * (1 + 1e-9) or not policy.splits
    shared = [len(places) for places, jobs in held.items() if len(jobs) > 1]
    if not policy.splits and shared:
        assert sum(sizes) - sum(map(len, held)) < max(shared)  # one group less would have been too much
    if gpus.sum() <= max(sizes):
        assert not shared


@pytest.mark.parametrize("seed", range(20))
def test_alone_it_is_shortest_remaining_service_first(seed):
    """With groups of one, on one pool: what runs is what `srsf` runs."""
    rng = np.random.default_rng(seed)
    n = 30
    jobs = Jobs.simple(
        np.sort(rng.uniform(0, 900, n)), rng.choice([1, 2, 4], n), np.exp(rng.normal(5, 1, n)), stages=np.ones((n, 3))
    )
    ours, theirs = (
        simulate(jobs, Cluster.parse("8"), policy) for policy in (Policy.build("muri_s", most=1), Policy.build("srsf"))
    )
    assert ours.finished == pytest.approx(theirs.finished)
    assert ours.stops.tolist() == theirs.stops.tolist()


def test_other_draws_find_other_matchings_of_nearly_the_same_worth(present):
    now = present([1] * 12, [4], stages=np.tile([1.0, 1, 1], (12, 1)))
    found = [Policy.build("muri_l", noise=noise, splits=False).start().decide(now) for noise in (0.0, 1e-6, 2e-6)]
    assert all(sorted(each.step) == pytest.approx(sorted(found[0].step)) for each in found)
    assert not (found[1].holds == found[2].holds).all()


def test_a_trace_without_stages(present):
    jobs = Jobs.simple(np.zeros(1), np.ones(1), np.ones(1))
    with pytest.raises(SettingsError, match="the trace has no columns loading, computing and sending"):
        simulate(jobs, Cluster.parse("8"), Policy.build("muri_l"))
