"""The pricing pass against a sort in numpy: the same cheapest clusters and least reduced costs."""

import numpy as np
import pytest

from mfcp.arrays import read_only
from mfcp.matching.large.pricing_kernels import BLOCK, Chosen, Costs, price_tasks


def priced(T, A, p, q, *, width=4, spread=0, extra=None, old=None, used=None, cap=None):
    M, n = T.shape
    cap = np.full(M, 1e300) if cap is None else cap
    extra, noise = np.empty((0, 0)) if extra is None else extra, np.zeros(4096 + BLOCK + 1)
    costs = Costs(read_only(T), read_only(A), 0, n, extra, p, q, cap, noise)
    chosen = Chosen(np.empty((n, width), np.int32), np.empty((n, width)), np.empty((n, width)), np.empty(n))
    nothing = np.empty((n, 0), np.int32), np.empty((n, 0), bool)
    price_tasks(costs, spread, *(nothing if old is None else (old, used)), chosen)
    return chosen


def drawn(M=7, n=600, seed=0):
    rng = np.random.default_rng(seed)
    return rng.lognormal(size=(M, n)), rng.uniform(0.5, 1, (M, n)), rng.uniform(0.1, 1, M), 0.7


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("with_extra", [False, True])
def test_candidates_are_the_cheapest_clusters_in_order(dtype, with_extra):
    T, A, p, q = drawn()
    T, A = T.astype(dtype), A.astype(dtype)
    extra = np.random.default_rng(1).uniform(size=T.shape) if with_extra else None
    reduced = p[:, None] * T.astype(float) - q * A.astype(float) + (0 if extra is None else extra)
    found = priced(T, A, p, q, extra=extra)
    np.testing.assert_array_equal(found.cluster, reduced.argsort(axis=0, kind="stable")[:4].T)
    np.testing.assert_allclose(found.least, reduced.min(axis=0), rtol=1e-6, atol=1e-12)
    tasks = np.arange(T.shape[1])[:, None]
    np.testing.assert_array_equal(found.time, T[found.cluster, tasks])
    np.testing.assert_array_equal(found.reliability, A[found.cluster, tasks])


def test_a_cluster_on_which_a_task_takes_too_long_is_no_candidate():
    T, A, p, q = drawn()
    found = priced(T, A, p, q, cap=np.full(7, 1.0))
    allowed = T <= 1.0
    fits = found.cluster >= 0
    assert allowed[found.cluster, np.arange(600)[:, None]][fits].all()
    np.testing.assert_array_equal(fits.sum(axis=1), np.minimum(allowed.sum(axis=0), 4))
    assert np.isinf(found.least[~allowed.any(axis=0)]).all()
    assert np.isinf(found.time[~fits]).all()


def test_candidates_in_use_stay_and_clusters_in_turn_are_added():
    T, A, p, q = drawn()
    order = (p[:, None] * T - q * A).argsort(axis=0).T
    old = order[:, -2:].astype(np.int32, order="C")  # the dearest two
    used = np.ones((600, 2), bool)
    used[::2, 1] = False
    found = priced(T, A, p, q, width=5, spread=1, old=old, used=used)
    for j in range(600):
        own = found.cluster[j][found.cluster[j] >= 0]
        assert len(set(own)) == len(own)
        assert set(old[j][used[j]]) <= set(own)
        assert order[j, 0] in own
        assert j % 7 in own  # its cluster in turn
