"""Groups of nodes by size: turns, growth and shrinking as worked by hand, and what must hold on any trace."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfcp.errors import SettingsError
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.configurations import Configurations
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Policy
from mfcp.simulator.policies.planning.gandiva_groups import GandivaGroups
from mfcp.simulator.simulation import import_policies, simulate

import_policies()


def ends(cluster, submit, gpus, duration, **settings):
    jobs = Jobs.simple(np.array(submit, float), np.array(gpus), np.array(duration, float))
    return simulate(jobs, Cluster.parse(cluster), Policy.build("gandiva_groups", **settings)).finished.tolist()


def test_two_jobs_on_one_accelerator_take_turns():
    assert ends("1", [0, 0], [1, 1], [25, 25], turn_s=10) == [45, 50]


def test_a_turn_is_not_shared_by_who_comes_later():
    # the first until 10, the second until 20, the first again until 30, its end; the third joined behind the first
    assert ends("1", [0, 0, 12], [1, 1, 1], [20, 20, 5], turn_s=10) == [30, 45, 35]


def test_jobs_that_fit_wait_for_nobody():
    assert ends("2x4", [0, 0, 3], [2, 2, 4], [10, 20, 5]) == [10, 20, 8]


def test_a_size_grows_when_nodes_become_free():
    # two nodes of two: a job of two holds one for 30 s, four jobs of one take turns on the other, then have a node more
    found = ends("2x2", [0, 0, 0, 0, 0], [2, 1, 1, 1, 1], [30, 50, 50, 50, 50], turn_s=10)
    assert found == pytest.approx([30, 60, 60, 70, 70])


def test_others_shrink_for_a_size_that_has_nothing():
    # four jobs of one on two nodes of two; one of two comes at 10, and has one of the nodes at once
    found = ends("2x2", [0, 0, 0, 0, 10], [1, 1, 1, 1, 2], [20, 20, 20, 20, 10], turn_s=10)
    assert found[4] == 20
    assert sorted(found[:4]) == [20, 20, 30, 30]
    # as published it asks for nothing, and has the node of the group that the other three left to its only job
    waited = ends("2x2", [0, 0, 0, 0, 10], [1, 1, 1, 1, 2], [20] * 4 + [10], turn_s=10, published=True)
    assert waited == [20, 20, 30, 30, 30]


def test_a_group_of_several_nodes_gives_all_of_them_back():
    # two jobs of four on two nodes of two each; two of two come at 10, and the node that each needs is there at once
    found = ends("4x2", [0, 0, 10, 10], [4, 4, 2, 2], [20, 20, 10, 10], turn_s=10)
    assert found[2:] == [20, 20]
    assert sorted(found[:2]) == [20, 30]


def test_others_shrink_before_a_size_grows():
    # a node of two for two jobs of one; at 5 eight more come, and two nodes of one of three groups of four are theirs,
    # so that four of the eight have their turn at once
    submit, gpus, duration = [0] * 5 + [5] * 8, [1, 1, 4, 4, 4] + [1] * 8, [20, 20, 40, 40, 40] + [5] * 8
    assert ends("7x2", submit, gpus, duration, turn_s=10)[5:].count(10) == 4


def test_a_size_keeps_a_group_that_it_needs_a_part_of():
    # three jobs of one on two nodes of two: the fourth place is nobody's, and all three run to their end
    assert ends("4x2", [0, 0, 0], [1, 1, 1], [30, 40, 50], turn_s=10) == [30, 40, 50]


def test_a_place_is_free_when_its_job_has_ended():
    # the third takes the place of the first, so that a node is left for a job of two
    assert ends("2x2", [0, 0, 10, 10], [1, 1, 1, 2], [5, 50, 50, 10]) == [5, 50, 60, 20]


def test_as_published_growth_with_nodes_for_all_moves_nobody():
    rows = [0] * 5, [4, 1, 1, 1, 1], [30, 50, 50, 50, 50]
    assert ends("3x2", *rows, turn_s=10) == pytest.approx([30, 60, 60, 70, 70])
    assert sorted(ends("3x2", *rows, turn_s=10, published=True)) == pytest.approx([30, 90, 90, 100, 100])


def test_as_published_a_group_keeps_a_place_empty():
    # two nodes of two: the second job of one opens the other node, and a job of two waits for either to end
    assert ends("2x2", [0, 0, 0], [1, 1, 2], [10, 20, 5], published=True)[2] > 5
    assert ends("2x2", [0, 0, 0], [1, 1, 2], [10, 20, 5]) == [10, 20, 5]


def test_it_parts_nodes_of_one_type():
    with pytest.raises(SettingsError, match="one type"):
        ends("v100:8,k80:8", [0], [1], [1])


def test_nodes_of_any_size_are_taken_as_they_fit():
    # the job of three takes the node of four, that of one the node of one; the node of two is left for the last
    assert ends("2,1,4", [0, 0, 0], [3, 1, 2], [10, 10, 10]) == [10, 10, 10]
    # no node is enough for the first, which takes the two largest; the last one has what is left
    assert ends("3,1,4", [0, 0], [7, 1], [10, 10]) == [10, 10]


def test_a_job_without_the_configuration_it_asks_for_is_an_error():
    jobs = Jobs.simple(np.zeros(1), np.array([4]), np.array([9.0]))
    ways = Configurations(np.array([8]), np.zeros(1, int), np.ones((1, 1)), np.zeros(1))
    with pytest.raises(SettingsError, match="asks for 4"):
        simulate(jobs, Cluster.parse("8"), Policy.build("gandiva_groups"), configurations=ways)


@settings(max_examples=150)
@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.sampled_from((1, 2, 3, 4, 8)), st.integers(1, 60)), min_size=1, max_size=12
    ),
    st.booleans(),
)
def test_every_job_has_its_time_and_no_node_is_lost(rows, published):
    rows = sorted(rows)
    submit, gpus, duration = np.array(rows, float).T
    jobs, cluster = Jobs.simple(submit, gpus.astype(int), duration), Cluster.parse("5x2")
    deciders = []

    whole = GandivaGroups.start

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GandivaGroups, "start", lambda policy: deciders.append(whole(policy)) or deciders[0])
        outcome = simulate(jobs, cluster, GandivaGroups(turn_s=10, published=published))
    np.testing.assert_allclose(outcome.executed, duration)
    assert (outcome.finished >= submit + duration - 1e-9).all()
    for decider in deciders:
        groups = [group for each in decider.of_size.values() for group in each]
        assert sorted(decider.free + [node for group in groups for node in group.nodes]) == [2] * 5
        assert all(group.places >= 1 for group in groups)
