import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mfcp.data.pool.effects import cluster_effects, task_effects

finite = st.floats(-3, 3)


@settings(max_examples=30)
@given(clusters=st.lists(finite, min_size=2, max_size=5), tasks=st.lists(finite, min_size=2, max_size=8), hole=finite)
def test_effects_of_a_product_are_found_despite_holes(clusters, tasks, hole):
    log = np.add.outer(clusters, tasks)
    T = np.exp(log)
    T[0, 0] = np.nan
    effect, group = cluster_effects(T)
    assert np.all(group == 0)
    np.testing.assert_allclose(effect, np.array(clusters) - np.mean(clusters), atol=1e-8)
    np.testing.assert_allclose(task_effects(T), np.array(tasks) + np.mean(clusters), atol=1e-8)


def test_clusters_that_share_no_task_are_groups_of_their_own():
    T = np.array([[1.0, 2, np.nan, np.nan], [2, 4, np.nan, np.nan], [np.nan, np.nan, 5, 5], [np.nan, np.nan, 50, 50]])
    effect, group = cluster_effects(T)
    assert group.tolist() == [0, 0, 1, 1]
    np.testing.assert_allclose(effect, np.log([2**-0.5, 2**0.5, 10**-0.5, 10**0.5]), atol=1e-12)


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32 - 1), groups=st.integers(1, 3), n=st.integers(1, 400))
def test_cluster_effects_solve_the_least_squares_problem(seed, groups, n):
    """Against the whole system, the mean of each group held at 0: what times cannot tell must leave no noise."""
    rng = np.random.default_rng(seed)
    M = groups * 15
    group, of_task = np.repeat(np.arange(groups), 15), rng.integers(0, groups, n)
    T = np.where((group[:, None] == of_task) & (rng.random((M, n)) < 0.8), np.exp(rng.normal(7, 2, (M, n))), np.nan)
    effect, found = cluster_effects(T)
    i, j = np.nonzero(np.isfinite(T))
    rows = np.zeros((len(i), M + n))
    rows[np.arange(len(i)), i] = rows[np.arange(len(i)), M + j] = 1
    means = np.pad(1.0 * (found == np.unique(found)[:, None]), ((0, 0), (0, n)))
    right = np.concatenate([np.log(T[i, j]), np.zeros(len(means))])
    exact = np.linalg.lstsq(np.concatenate([rows, means]), right, rcond=None)[0][:M]
    np.testing.assert_allclose(effect, exact, atol=1e-10)
