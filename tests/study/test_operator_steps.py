"""What a log's steps teach networks over operators: batches, seconds and accelerators, of tasks to learn from only."""

from dataclasses import replace

import numpy as np
import pytest
from platform_log import small_log, small_settings

from mfcp.study.operator_steps import OperatorSteps
from mfcp.study.study_pool import build_pool
from mfcp.tasks.features.descriptors import TaskFeatures
from mfcp.tasks.timing.measured_steps import TimingSettings

QUICK = TimingSettings(members=2, epochs=2, hidden=8)


def made(tables):
    pool = build_pool(tables, small_settings().section("pool"), seed=0)
    source, index = np.unique(pool.source_task, return_inverse=True)
    return pool, OperatorSteps.of(tables, pool, TaskFeatures.of(tables, source), index)


@pytest.fixture(scope="module")
def log():
    return small_log()


@pytest.fixture(scope="module")
def steps(log):
    return made(log)[1]


def test_seconds_are_those_of_one_step(log):
    """A task of 10,000 samples in steps of 8: its seconds over 1,250, on one of two accelerators side by side twice."""
    pool, _ = made(log)
    doubled = replace(pool, pool_size=2 * pool.pool_size)
    source, index = np.unique(pool.source_task, return_inverse=True)
    features = TaskFeatures.of(log, source)
    for own, factor in ((pool, 1), (doubled, 2)):
        steps = OperatorSteps.of(log, own, features, index).steps
        assert (steps.batch == 8).all()
        np.testing.assert_allclose(steps.seconds[:, index], factor * pool.T / 1250)


def test_a_run_tells_its_batch_and_a_task_without_one_counts_as_one_sample(log):
    runs = log["runs"].copy()
    first = (runs["task_id"] == "task0") & (runs["cluster_id"] == "a")
    runs["batch_size"] = runs["batch_size"].mask(first, 4)
    tasks = log["tasks"].assign(batch_size=log["tasks"]["batch_size"].mask(log["tasks"]["task_id"] == "task1"))
    _, steps = made({**log, "runs": runs, "tasks": tasks})
    at = {name: k for k, name in enumerate(steps.features.tasks["task_id"])}
    assert steps.steps.batch[:, at["task0"]].tolist() == [4, 8, 8]
    assert steps.steps.batch[:, at["task1"]].tolist() == [1, 1, 1]


def test_clusters_without_figures_get_nominal_ones_scaled_to_their_times(log, steps):
    """Ten times as slow, a tenth of the figures; of the tasks to learn from."""
    known = np.arange(len(steps.features.tasks)) < 60
    rows, own = np.arange(3), np.flatnonzero(known)
    usual = steps._accelerators(rows, own)
    slow = replace(steps, steps=replace(steps.steps, seconds=steps.steps.seconds * np.array([[10.0], [1], [1]])))
    factor = [b.peak / a.peak for a, b in zip(usual, slow._accelerators(rows, own), strict=True)]
    assert factor == pytest.approx([0.1, 1, 1], rel=1e-6)
    stated = replace(steps, figures=np.array([[1e14, 9e11]] * 3))
    assert [(a.peak, a.bandwidth) for a in stated._accelerators(rows, own)] == [(1e14, 9e11)] * 3
    spoiled = steps.steps.seconds * np.where(known, 1.0, 50.0)
    batch = np.broadcast_to(np.where(known, 8.0, 512.0), spoiled.shape)
    other = replace(steps, steps=replace(steps.steps, seconds=spoiled, batch=batch))
    assert other._accelerators(rows, own) == usual


def test_half_precision_of_most_steps_is_the_clusters(log):
    """What runs tell comes before what their task does."""
    rows, own = np.arange(3), np.arange(40)

    def element_bytes(tables):
        return [a.element_bytes for a in made(tables)[1]._accelerators(rows, own)]

    assert element_bytes(log) == [4, 4, 4]
    half = {**log, "tasks": log["tasks"].assign(precision="amp_fp16")}
    assert element_bytes(half) == [2, 2, 2]
    runs = log["runs"].assign(precision=log["runs"]["cluster_id"].map({"a": "fp32", "b": "amp_bf16"}))
    assert element_bytes({**half, "runs": runs}) == [4, 2, 2]  # nothing is told of c


def test_a_cluster_that_a_fold_alone_knows_says_nothing(steps):
    """No network without that fold could be trained for it; the others go on."""
    seconds = steps.steps.seconds.copy()
    seconds[2, 1:] = np.nan
    lone = replace(steps, steps=replace(steps.steps, seconds=seconds))
    predictor, times = lone.fit(np.ones(len(seconds[0]), bool), 0, QUICK)
    assert predictor.rows.tolist() == [0, 1]
    assert np.isnan(times[2]).all()
    assert np.isfinite(times[:2]).all()


def test_too_few_families_to_leave_one_out_teach_nothing(steps):
    known = np.zeros(len(steps.features.tasks), bool)
    known[:1] = True
    predictor, times = steps.fit(known, 0, QUICK)
    assert predictor is None
    assert np.isnan(times).all()


def test_a_stated_batch_is_asked_for_else_the_typical_one(log, steps):
    """Times per sample: of steps of one sample, launches weigh more."""
    predictor, _ = steps.fit(np.ones(len(steps.features.tasks), bool), 0, QUICK)

    def per_sample(batch):
        tasks = steps.features.tasks.assign(batch_size=batch)
        return predictor.log_seconds(TaskFeatures(tasks, steps.features.graphs))

    np.testing.assert_array_equal(per_sample(None), per_sample(8.0))  # every run had 8
    assert (per_sample(1.0) > per_sample(8.0)).all()
