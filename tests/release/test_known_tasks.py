"""What was measured of a task comes before what is predicted of it."""

import numpy as np
import pytest
from platform_log import small_log

from mfcp.data.pool.logged import logged_pool
from mfcp.release.known_tasks import KnownTasks
from mfcp.rules.base import Belief

LOG = small_log(8, runs=6)
POOL = logged_pool(LOG)


@pytest.fixture(scope="module")
def known():
    return KnownTasks.of(LOG, POOL, usual=0.1)


def belief(n, log_sd=0.3, known=True):
    ones = np.ones((1, 3, n))
    return Belief(50 * ones, 0.9 * ones, log_sd * ones, 0.2 * ones, 0.05 * ones, np.array([0.8]), ones > 0,
                  reliability_known=known)  # fmt: skip


def test_a_task_is_known_by_its_description_and_not_by_its_name(known):
    tasks = LOG["tasks"].assign(task_id=[f"new{k}" for k in range(8)])
    at = known.find(tasks)
    assert (at >= 0).all()
    assert len(set(at)) == 8
    assert (known.find(tasks.assign(samples=tasks["samples"] * 2)) == -1).all()
    assert known.find(tasks.drop(columns="flops")).tolist() == [-1] * 8


def test_a_name_alone_stands_for_the_logged_task_unless_its_row_contradicts(known):
    named = LOG["tasks"][["task_id"]].head(2)
    assert known.find(known.completed(named)).tolist() == known.find(LOG["tasks"].head(2)).tolist()
    other = named.assign(batch_size=[8, 99])
    assert known.find(known.completed(other)).tolist() == [known.find(LOG["tasks"])[0], -1]
    assert "flops" not in known.completed(named.assign(task_id=["x", "y"]))


def test_the_posterior_is_the_normal_one(known):
    """Against a quadrature over log time, with six runs of deviation 0.02 and a prior of deviation 0.3."""
    at = known.find(LOG["tasks"].head(1))
    after = known.update(belief(1), at, np.zeros(1))
    grid = np.linspace(np.log(1), np.log(1000), 400_001)
    for i in range(3):
        mean, var = known.log_time[i, at[0]], known.variance[i, at[0]]
        weight = np.exp(-((grid - np.log(50)) ** 2) / (2 * 0.3**2) - (grid - mean) ** 2 / (2 * var))
        weight /= weight.sum()
        expected = (weight * grid).sum()
        assert np.log(after.T[0, i, 0]) == pytest.approx(expected, abs=1e-4)
        assert after.log_sd[0, i, 0] == pytest.approx(np.sqrt((weight * (grid - expected) ** 2).sum()), rel=1e-2)
        assert after.T[0, i, 0] == pytest.approx(POOL.T[i, 0], rel=0.01)
        assert after.own_sd[0, i, 0] <= after.log_sd[0, i, 0]


def test_the_share_is_the_beta_posterior(known):
    at = known.find(LOG["tasks"].head(1))
    after = known.update(belief(1), at, np.zeros(1))
    strength = 0.9 * 0.1 / 0.05**2 - 1
    won, tried = known.succeeded[:, at[0]], known.finished[:, at[0]]
    np.testing.assert_allclose(after.A[0, :, 0], (0.9 * strength + won) / (strength + tried))
    unknown = known.update(belief(1, known=False), at, np.zeros(1))
    np.testing.assert_array_equal(unknown.A, 0.9)


def test_unknown_tasks_keep_their_predictions(known):
    before = belief(2)
    assert known.update(before, np.array([-1, -1]), np.zeros(2)) is before
    after = known.update(before, np.array([-1, 0]), np.zeros(2))
    np.testing.assert_allclose(after.T[..., 0], before.T[..., 0], rtol=1e-12)
    assert not np.allclose(after.T[..., 1], before.T[..., 1])


def test_a_description_of_several_tasks_is_as_uncertain_as_they_differ():
    tasks = LOG["tasks"].copy()
    same = [name for name in tasks if name != "task_id"]
    tasks.loc[1, same] = tasks.loc[0, same].to_numpy()
    tables = {**LOG, "tasks": tasks}
    both = KnownTasks.of(tables, logged_pool(tables), usual=0.1)
    own = both.find(tasks.head(2))
    assert own.tolist() == [0, 1]  # by their names they are themselves
    (new,) = both.find(tasks.head(1).assign(task_id="new"))
    assert new == 8
    times = both.log_time[:, :2]
    np.testing.assert_allclose(both.log_time[:, new], times.mean(axis=1))
    np.testing.assert_allclose(both.variance[:, new], times.var(axis=1, ddof=1) * 1.5)
    assert both.finished[:, new].tolist() == both.finished[:, :2].sum(axis=1).tolist()


def test_a_row_that_says_nothing_is_no_description():
    tables = {**LOG, "tasks": LOG["tasks"].assign(model=None, graph_id=None, flops=np.nan, param_count=None)}
    nameless = KnownTasks.of(tables, logged_pool(tables), usual=0.1)
    assert not nameless.described
    assert nameless.find(tables["tasks"].head(1).assign(task_id="new")).tolist() == [-1]
    assert nameless.find(tables["tasks"]).tolist() == list(range(8))


def test_they_come_back_from_disk(known, tmp_path):
    known.save(tmp_path)
    again = KnownTasks.load(tmp_path)
    assert again.described == known.described
    np.testing.assert_array_equal(again.log_time, known.log_time)
    assert again.find(LOG["tasks"]).tolist() == known.find(LOG["tasks"]).tolist()
