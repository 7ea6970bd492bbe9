"""The pool of operation: logged seconds and counted outcomes, whatever a log lacks."""

import numpy as np
import pytest

from mfcp.data.log.coercion import coerce
from mfcp.data.log.schema import SCHEMA
from mfcp.data.pool.logged import fewest_tasks, is_emulated, logged_pool
from mfcp.data.pool.task_pool import TaskPool
from mfcp.errors import DataError


def valid(tables):
    return {name: coerce(SCHEMA[name], frame).frame for name, frame in tables.items()}


def test_durations_are_taken_as_logged_whatever_the_pools(small_log):
    tables = small_log()
    tables["clusters"]["pool_size"] = [1.0, 7.0]
    pool = logged_pool(valid(tables))
    np.testing.assert_allclose(pool.T, [[10, 20], [20, 40]])
    np.testing.assert_allclose(pool.A, [[1, 1], [1, 0.5]])
    assert pool.pool_size.tolist() == [1, 7]
    assert (pool.emulated, pool.per_sample, pool.reliability_known) == ((), False, True)


def test_a_log_without_failures_tells_nothing_of_reliability(small_log):
    tables = small_log()
    tables["runs"]["status"] = "succeeded"
    pool = logged_pool(valid(tables))
    assert not pool.reliability_known
    np.testing.assert_array_equal(pool.A, 1.0)


def test_work_follows_from_what_is_stated_or_implied_and_else_a_task_is_left_out(small_log):
    tables = small_log()
    tables["tasks"]["samples"] = [100.0, None]
    tables["runs"]["samples_per_s"] = 5.0
    tables["runs"]["duration_s"] = None
    pool = logged_pool(valid(tables), least_tasks=1)
    assert pool.task_id.tolist() == ["a"]
    np.testing.assert_allclose(pool.T, [[20], [20]])
    assert "1 of 2 tasks left out" in pool.notes[0]


def test_a_log_of_throughput_alone_has_times_of_one_sample(gavel_like):
    tables = valid(gavel_like())
    pool = logged_pool(tables)
    assert pool.per_sample
    assert "a3c/None" not in pool.task_id  # no run of it tells a batch: its steps compare with nothing
    runs = tables["runs"]
    for i, j in np.argwhere(pool.allowed):
        own = runs[(runs["task_id"] == pool.task_id[j]) & (runs["cluster_id"] == pool.cluster_id[i])]
        expected = (own["step_time_s"] / own["batch_size"].astype(float)).mean()
        assert pool.T[i, j] == pytest.approx(expected)
    assert pool.emulated == ()


def test_an_emulated_log_says_so_by_its_clusters_or_its_truth(small_log):
    tables = small_log()
    assert not is_emulated(valid(tables))
    tables["clusters"]["origin"] = ["measured", "emulated"]
    assert logged_pool(valid(tables)).emulated == ("runs",)
    truth = [{"task_id": "a", "cluster_id": "x", "duration_s": 11.0, "reliability": 0.9}]
    pool = logged_pool(valid(small_log(truth=truth)))
    assert pool.emulated == ("runs",)
    assert pool.T[0, 0] == 10.0
    assert pool.T_true[0, 0] == 11.0


@pytest.mark.parametrize(("most", "least"), [(0, 2), (3, 2), (10, 5), (11, 6), (30, 15), (500, 15)])
def test_a_cluster_needs_half_of_what_the_best_has_up_to_fifteen(most, least):
    assert fewest_tasks(np.array([1, most])) == least


def test_fewer_than_two_clusters_with_tasks_are_an_error(small_log):
    tables = small_log()
    tables["runs"] = tables["runs"][tables["runs"]["cluster_id"] == "x"]
    with pytest.raises(DataError, match=r"1 of 2 clusters have fewer than 2 tasks with a time .*: y \(0\)"):
        logged_pool(valid(tables))


def test_a_pool_keeps_what_it_does_not_know_on_disk(small_log, tmp_path):
    tables = small_log()
    tables["runs"]["status"] = "succeeded"
    logged_pool(valid(tables)).save(tmp_path)
    again = TaskPool.load(tmp_path)
    assert (again.per_sample, again.reliability_known) == (False, False)
