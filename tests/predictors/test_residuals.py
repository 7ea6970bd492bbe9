"""The process of errors: a dense Gaussian posterior written apart, closed forms, and moments that it was drawn with."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfcp.predictors import residuals
from mfcp.predictors.residuals import NEAREST, ObservedCells, ResidualProcess, TaskPoints


def semidefinite(rng, M, size):
    root = rng.normal(size=(M, M)) * size
    return root @ root.T


def some_process(seed=0, M=3):
    rng = np.random.default_rng(seed)
    return ResidualProcess(*(semidefinite(rng, M, size) for size in (0.1, 0.15, 0.05)), 0.4)


def some_points(rng, n, families=2, tasks=4, d=3):
    task = rng.integers(0, tasks, n)
    return TaskPoints(np.char.add("t", task.astype(str)), np.char.add("f", (task % families).astype(str)),
                      rng.normal(size=(tasks, d))[task])  # fmt: skip


def some_cells(rng, n, M=3, **kwargs):
    return ObservedCells(
        some_points(rng, n, **kwargs), rng.integers(0, M, n), rng.normal(0, 0.2, n), rng.uniform(0.001, 0.01, n)
    )


def dense(process, points, observed, j):
    """Posterior of one task by the textbook's formula, cell by cell."""
    M = len(process.family)

    def cov(a, i, b, k):
        if a[1] != b[1]:
            return 0.0
        d = np.sqrt(np.mean((a[2] - b[2]) ** 2))
        return (
            process.family[i, k] + process.near[i, k] * np.exp(-d / process.length)
            + (process.task[i, k] if a[0] == b[0] else 0.0)
        )  # fmt: skip

    def at(p, k):
        return p.task[k], p.family[k], p.Z[k]

    K = len(observed.cluster)
    inner = np.array([
        [
            cov(at(observed.points, a), observed.cluster[a], at(observed.points, b), observed.cluster[b])
            for b in range(K)
        ]
        for a in range(K)
    ]) + np.diag(observed.variance)  # fmt: skip
    outer = np.array([
        [cov(at(points, j), i, at(observed.points, b), observed.cluster[b]) for b in range(K)] for i in range(M)
    ])  # fmt: skip
    weight = outer @ np.linalg.inv(inner)
    prior = process.family + process.near + process.task
    return weight @ observed.residual, prior - weight @ outer.T


@pytest.mark.parametrize("seed", range(6))
def test_it_is_the_dense_gaussian_posterior(seed):
    """Ties of tasks and features, tasks of other families, several cells of one task: the same numbers."""
    rng = np.random.default_rng(seed)
    process, points, observed = some_process(seed), some_points(rng, 5), some_cells(rng, 12)
    told = process.condition(points, observed)
    for j in range(5):
        shift, covariance = dense(process, points, observed, j)
        assert told.shift[j] == pytest.approx(shift, abs=1e-10)
        assert told.covariance[j] == pytest.approx(covariance, abs=1e-10)
        assert told.parts[j].sum(axis=1) == pytest.approx(told.shift[j], abs=1e-12)
        others = observed.take(observed.points.task != points.task[j])
        left = np.diagonal(dense(process, points, others, j)[1])
        assert told.untold[j] == pytest.approx(np.diagonal(covariance) / left, abs=1e-10)
        own = (observed.points.task == points.task[j]) & (observed.points.family == points.family[j])
        assert own.any() or (told.untold[j] == 1.0).all()
        related = observed.points.family[told.cells[j]] == points.family[j]
        assert related.all()


def test_two_clusters_by_hand():
    """One task, errors of variance 1 and correlation r, one cell measured with noise t²: the closed form."""
    r, t, y = 0.6, 0.5, 0.3
    none = np.zeros((2, 2))
    process = ResidualProcess(none, none, np.array([[1.0, r], [r, 1.0]]), 1.0)
    one = TaskPoints(np.array(["t"]), np.array(["f"]), np.zeros((1, 1)))
    told = process.condition(one, ObservedCells(one, np.array([0]), np.array([y]), np.array([t**2])))
    gain = 1 / (1 + t**2)
    assert told.shift[0] == pytest.approx([y * gain, y * r * gain])
    assert told.covariance[0] == pytest.approx(np.array([[1 - gain, r - r * gain], [r - r * gain, 1 - r * r * gain]]))


def test_nothing_related_changes_nothing_at_all():
    rng = np.random.default_rng(0)
    process, observed = some_process(), some_cells(rng, 8)
    other = TaskPoints(np.array(["t0"]), np.array(["another"]), np.zeros((1, 3)))
    for cells in (observed, observed.take(np.zeros(0, np.int64))):
        told = process.condition(other, cells)
        assert not told.shift.any()
        assert np.array_equal(told.covariance[0], process.total)
        assert (told.untold == 1.0).all()
        assert not len(told.cells[0])


def test_runs_of_one_cell_are_one_observation_of_their_mean():
    """Three runs of one cell, merged or each on its own: one posterior."""
    rng = np.random.default_rng(1)
    process, one = some_process(), some_points(rng, 1)
    three = TaskPoints(*(np.repeat(part, 3, axis=0) for part in (one.task, one.family, one.Z)))
    given = three, np.full(3, 1), np.array([0.1, 0.3, 0.2]), np.array([0.01, 0.02, 0.01])
    merged = ObservedCells.of(*given)
    assert len(merged.cluster) == 1
    assert merged.variance == pytest.approx([1 / 250])
    apart, together = (process.condition(one, cells) for cells in (ObservedCells(*given), merged))
    assert together.shift == pytest.approx(apart.shift)
    assert together.covariance == pytest.approx(apart.covariance)


def test_cells_of_one_task_with_other_features_stay_apart():
    """Copies of a task with other samples are near each other, not the same."""
    points = TaskPoints(np.array(["t", "t"]), np.array(["f", "f"]), np.array([[0.0], [1.0]]))
    assert len(ObservedCells.of(points, np.zeros(2, int), np.zeros(2), np.ones(2)).cluster) == 2


def test_of_many_cells_the_nearest_count_and_its_own_before_all():
    """The cells of the task itself are farthest in features and still among the nearest thirty."""
    n = 2 * NEAREST
    task = np.array(["own"] + [f"t{k}" for k in range(1, n)])
    Z = np.concatenate([[50.0], np.arange(1, n)])[:, None]
    observed = ObservedCells(TaskPoints(task, np.full(n, "f"), Z), np.zeros(n, int), np.ones(n), np.full(n, 0.01))
    told = some_process().condition(TaskPoints(np.array(["own"]), np.array(["f"]), np.zeros((1, 1))), observed)
    assert sorted(told.cells[0]) == list(range(NEAREST))


def drawn(rng, process, families, per_family, M=3):
    """Errors (M, n) of tasks of families, drawn from a process."""
    n = families * per_family
    Z = rng.normal(size=(n, 2))
    family = np.repeat(np.arange(families), per_family).astype(str)
    error = np.empty((M, n))
    for f in range(families):
        at = slice(f * per_family, (f + 1) * per_family)
        d = np.sqrt(((Z[at, None] - Z[None, at]) ** 2).mean(-1))
        cov = np.kron(np.ones_like(d), process.family) + np.kron(np.exp(-d / process.length), process.near)
        cov += np.kron(np.eye(per_family), process.task)
        error[:, at] = rng.multivariate_normal(np.zeros(len(cov)), cov).reshape(per_family, M).T
    return error, TaskPoints(np.arange(n).astype(str), family, Z)


def test_moments_are_those_it_was_drawn_with():
    rng = np.random.default_rng(0)
    process = some_process(3)
    error, points = drawn(rng, process, 400, 8)
    found = ResidualProcess.fit(error, np.ones(error.shape, bool), points)
    assert found.length == process.length
    size = np.trace(process.total)
    for name in ("family", "near", "task", "total"):
        assert getattr(found, name) == pytest.approx(getattr(process, name), abs=0.06 * size), name


def test_gaps_in_a_log_do_not_bias_it():
    """A third of the cells unknown, no task known everywhere: the same moments, a little less sure."""
    rng = np.random.default_rng(0)
    process = some_process(3)
    error, points = drawn(rng, process, 400, 8)
    known = np.arange(3)[:, None] != rng.integers(0, 3, error.shape[1])
    found = ResidualProcess.fit(np.where(known, error, np.nan), known, points)
    assert found.total == pytest.approx(process.total, abs=0.08 * np.trace(process.total))
    assert np.diag(found.family) == pytest.approx(np.diag(process.family), abs=0.08 * np.trace(process.total))


def test_tasks_that_share_nothing_tell_nothing():
    """Errors drawn one by one: what relatives share is found to be next to nothing."""
    rng = np.random.default_rng(0)
    none = np.zeros((3, 3))
    error, points = drawn(rng, ResidualProcess(none, none, np.diag([0.01, 0.02, 0.03]), 0.4), 200, 8)
    found = ResidualProcess.fit(error, np.ones(error.shape, bool), points)
    assert np.trace(found.family + found.near) < 0.1 * np.trace(found.total)


def test_what_relatives_share_is_cut_down_to_what_it_proves_to_be_worth():
    """Of 200 families nearly all of it; of three next to nothing; of relatives that mislead, nothing."""
    rng = np.random.default_rng(1)
    process = some_process(3)
    error, points = drawn(rng, process, 200, 6)
    known = np.ones(error.shape, bool)
    assert 0.75 < residuals._told_by_relatives(process, error, known, points) <= 1
    few = np.isin(points.family, ["0", "1", "2"])
    assert residuals._told_by_relatives(process, error[:, few], known[:, few], points.take(few)) < 0.75
    turned = error * np.where(np.arange(error.shape[1]) % 2, 1, -1)  # every other one is off the other way
    assert residuals._told_by_relatives(process, turned, known, points) == 0
    half = process.related(0.5)
    assert half.total == pytest.approx(process.total)
    assert half.family == pytest.approx(0.5 * process.family)


def test_a_log_without_relatives_says_nothing_of_them():
    """One task a family: all is the task's own, and cells of another tell nothing."""
    rng = np.random.default_rng(0)
    points = TaskPoints(*(np.arange(30).astype(str),) * 2, rng.normal(size=(30, 2)))
    found = ResidualProcess.fit(rng.normal(size=(3, 30)), np.ones((3, 30), bool), points)
    assert not found.family.any()
    assert not found.near.any()
    assert np.linalg.eigvalsh(found.task).min() > 0


def test_a_large_family_is_sampled(monkeypatch):
    """Of a family of more tasks than pairs are made of, every so many count."""
    rng = np.random.default_rng(0)
    error, points = drawn(rng, some_process(3), 20, 40)
    known = np.ones(error.shape, bool)
    whole = ResidualProcess.fit(error, known, points)
    monkeypatch.setattr(residuals, "_PER_FAMILY", 20)
    half = ResidualProcess.fit(error, known, points)
    assert np.trace(half.total) == pytest.approx(np.trace(whole.total))
    assert np.trace(half.family) == pytest.approx(np.trace(whole.family), rel=0.5)


@settings(max_examples=60)
@given(seed=st.integers(0, 10_000), n=st.integers(1, 12), M=st.integers(1, 4), families=st.integers(1, 4))
def test_whatever_it_is_fitted_on_it_is_a_covariance(seed, n, M, families):
    """Few tasks, gaps, equal errors: parts are positive semidefinite, and observing narrows."""
    rng = np.random.default_rng(seed)
    points = some_points(rng, n, families=families, tasks=max(n // 2, 1))
    error = np.round(rng.normal(0, 0.2, (M, n)), 1)
    known = rng.random((M, n)) < 0.8
    process = ResidualProcess.fit(error, known, points)
    for part in (process.family, process.near, process.task):
        assert np.isfinite(part).all()
        assert np.linalg.eigvalsh(part).min() >= -1e-9
    told = process.condition(points, some_cells(rng, 6, M=M, families=families, tasks=max(n // 2, 1)))
    for after in told.covariance:
        assert np.linalg.eigvalsh(after).min() >= -1e-8
        assert np.linalg.eigvalsh(process.total - after).min() >= -1e-8
