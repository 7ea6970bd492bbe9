import numpy as np
import pytest
from pydantic import ValidationError

from mfcp.data.log.coercion import coerce
from mfcp.data.log.schema import SCHEMA
from mfcp.data.pool.effects import cluster_effects
from mfcp.errors import DataError
from mfcp.study.study_pool import PoolSettings, build_pool

AS_LOGGED = PoolSettings(pools="asis", failures="observed", min_tasks_per_cluster=1)


def valid(tables):
    return {name: coerce(SCHEMA[name], frame).frame for name, frame in tables.items()}


def changed(settings, **changes):
    return PoolSettings(**({name: getattr(settings, name) for name in PoolSettings.model_fields} | changes))


def test_a_log_with_durations_and_counts_is_taken_as_it_is(small_log):
    pool = build_pool(valid(small_log()), AS_LOGGED, seed=0)
    np.testing.assert_allclose(pool.T, [[10, 20], [20, 40]])
    np.testing.assert_allclose(pool.A, [[1, 1], [1, 0.5]])
    assert pool.runs.tolist() == [[2, 2], [2, 2]]
    assert pool.task_id.tolist() == pool.source_task.tolist() == ["a", "b"]
    assert pool.allowed.all()
    assert pool.emulated == ()
    assert pool.notes == ()
    assert pool.T_true is pool.A_true is None
    assert np.isfinite(pool.samples).all()


def test_stated_samples_turn_throughput_into_time(small_log):
    tables = small_log()
    tables["tasks"]["samples"] = [100.0, 1000.0]
    tables["clusters"]["pool_size"] = [1.0, 4.0]
    tables["runs"]["samples_per_s"] = 5.0
    tables["runs"]["duration_s"] = None
    pool = build_pool(valid(tables), AS_LOGGED, seed=0)
    np.testing.assert_allclose(pool.T, [[20, 200], [5, 50]])
    assert "samples" not in pool.emulated


def test_measured_and_emulated_work_are_not_mixed_in_one_task(small_log):
    tables = small_log()
    runs = tables["runs"]
    runs["samples_per_s"] = 5.0
    on_y = runs["cluster_id"] == "y"
    runs.loc[on_y & (runs["task_id"] == "b"), "duration_s"] = None
    runs.loc[~on_y, "samples_per_s"] = None
    pool = build_pool(valid(tables), AS_LOGGED, seed=0)
    assert pool.allowed.tolist() == [[True, True], [True, False]]
    runs.loc[0, "samples_per_s"] = 5.0  # a's run on x tells both, b's none
    runs.loc[4, "samples_per_s"] = 7.0
    pool = build_pool(valid(tables), AS_LOGGED, seed=0)
    assert pool.allowed.all()
    assert pool.T[1, 1] == pytest.approx(20 * 7 / 5)  # 140 samples at 5 a second


def test_truth_is_kept_apart(small_log):
    truth = [{"task_id": t, "cluster_id": c, "duration_s": 11.0, "reliability": 0.9} for t in "ab" for c in "xy"]
    pool = build_pool(valid(small_log(truth=truth[:3])), AS_LOGGED, seed=0)
    np.testing.assert_allclose(pool.T_true, [[11, 11], [11, 40]])
    np.testing.assert_allclose(pool.A_true, [[0.9, 0.9], [0.9, 0.5]])
    np.testing.assert_allclose(pool.T, [[10, 20], [20, 40]])
    assert pool.emulated == ("runs",)
    balanced = build_pool(valid(small_log(truth=truth)), changed(AS_LOGGED, pools="balanced", failures="auto"), seed=0)
    np.testing.assert_allclose(balanced.T_true * balanced.pool_size[:, None], 11.0)
    assert balanced.emulated == ("runs", "pool_size")


def test_timm_like(timm_like):
    tables = valid(timm_like())
    pool = build_pool(tables, PoolSettings(min_tasks_per_cluster=10), seed=0)
    assert pool.emulated == ("samples", "pool_size", "failures")
    assert len(pool.cluster_id) == 5
    assert "unused (0)" in pool.notes[0]
    assert len(set(pool.source_task)) < len(pool.task_id) <= 260  # 60 tasks are filled up to about 200
    assert not pool.allowed.all()
    np.testing.assert_array_equal(pool.allowed, np.isfinite(pool.T))
    np.testing.assert_array_equal(pool.runs, np.where(pool.allowed, 30, 0))
    effect, group = cluster_effects(pool.T)
    assert group.tolist() == [0, 0, 0, 1, 1]
    for g in (0, 1):
        assert np.ptp(effect[group == g]) <= np.log(1.4) + 1e-9
    runs = tables["runs"].set_index(["task_id", "cluster_id"])
    j = list(pool.task_id).index("infer/1")
    i = int(np.flatnonzero(pool.allowed[:, j])[-1])
    rate = runs.loc[("infer/1", pool.cluster_id[i]), "samples_per_s"]
    assert pool.T[i, j] == pytest.approx(pool.samples[j] / (pool.pool_size[i] * rate))


def test_gavel_like(gavel_like):
    pool = build_pool(valid(gavel_like()), PoolSettings(replica_target=70, min_tasks_per_cluster=5), seed=0)
    assert len(pool.task_id) == 70
    assert len(set(pool.source_task)) == 7
    assert len(set(pool.family)) == 3
    first, second = np.flatnonzero(pool.source_task == "lm/32")[:2]
    known = pool.allowed[:, first]
    ratio = pool.T[known, second] / pool.T[known, first]
    np.testing.assert_allclose(ratio, pool.samples[second] / pool.samples[first])
    assert abs(np.log(ratio[0])) > 1e-3
    assert "failures" in pool.emulated  # one failure in single attempts says nothing about a pair
    assert not pool.allowed[0, pool.source_task == "resnet-18/16"].any()
    spread = np.nanmean(np.log(pool.T), axis=0)
    assert spread.std() < 2.0  # a step of a3c takes 3,200 times as long as a sample of the others, and stands for 32


def test_replicas_only_of_drawn_work(small_log, gavel_like):
    pool = build_pool(valid(small_log()), changed(AS_LOGGED, replicas=5), seed=0)
    assert len(pool.task_id) == 2
    pool = build_pool(valid(gavel_like()), changed(AS_LOGGED, replicas=3), seed=0)
    assert len(pool.task_id) == 21
    assert pool.task_id[:3].tolist() == ["resnet-18/16", "resnet-18/16#2", "resnet-18/16#3"]
    fixed = build_pool(valid(gavel_like()), changed(AS_LOGGED, samples={"kind": "fixed", "value": 10.0}), seed=0)
    assert len(fixed.task_id) == 7  # copies would be equal
    np.testing.assert_array_equal(fixed.samples[:6], 10.0)
    assert fixed.samples[6] == 10 / 32  # of a3c steps are counted, of the log's median batch


@pytest.mark.parametrize(("failures", "emulated"), [("auto", True), ("observed", False), ("emulated", True)])
def test_source_of_reliability_on_single_attempts(gavel_like, failures, emulated):
    pool = build_pool(valid(gavel_like()), changed(AS_LOGGED, failures=failures), seed=0)
    assert ("failures" in pool.emulated) == emulated
    assert (pool.A_true is not None) == emulated


def test_auto_trusts_a_log_with_failures_and_enough_runs(small_log):
    tables = small_log()
    runs = tables["runs"]
    tables["runs"] = runs.loc[runs.index.repeat(3)].reset_index(drop=True)
    tables["runs"]["run_id"] = [f"r{k}" for k in range(24)]
    pool = build_pool(valid(tables), changed(AS_LOGGED, failures="auto"), seed=0)
    assert pool.emulated == ()
    np.testing.assert_allclose(pool.A, [[1, 1], [1, 0.5]])
    tables["runs"]["status"] = "succeeded"
    assert build_pool(valid(tables), changed(AS_LOGGED, failures="auto"), seed=0).emulated == ("failures",)


def test_failures_off(small_log):
    pool = build_pool(valid(small_log()), changed(AS_LOGGED, failures="off"), seed=0)
    np.testing.assert_array_equal(pool.A, 1.0)
    assert pool.emulated == ()


def test_the_seed_decides_everything_drawn(timm_like):
    tables = valid(timm_like())
    first, again, other = (build_pool(tables, PoolSettings(), seed=s) for s in (0, 0, 1))
    np.testing.assert_array_equal(first.T, again.T)
    np.testing.assert_array_equal(first.A, again.A)
    assert not np.array_equal(first.pool_size, other.pool_size)
    assert not np.array_equal(first.samples, other.samples)


def test_a_cluster_with_too_few_tasks_is_left_out_by_name(small_log):
    tables = small_log()
    tables["clusters"] = tables["clusters"].reindex([0, 1, 1], method=None).reset_index(drop=True)
    tables["clusters"].loc[2, "cluster_id"] = "z"
    rows = tables["runs"].head(1).copy()
    rows["run_id"], rows["cluster_id"] = "r9", "z"
    tables["runs"] = type(rows)(
        {c: [*tables["runs"][c], *rows[c]] for c in tables["runs"]},
    )
    pool = build_pool(valid(tables), changed(AS_LOGGED, min_tasks_per_cluster=2), seed=0)
    assert pool.cluster_id.tolist() == ["x", "y"]
    assert pool.notes == (
        "1 of 3 clusters left out for fewer than 2 tasks with a time (pool.min_tasks_per_cluster): z (1)",
    )


def test_fewer_than_two_clusters_is_an_error(small_log):
    with pytest.raises(DataError, match=r"2 of 2 clusters have fewer than 15 tasks with a time .*: x \(2\), y \(2\)"):
        build_pool(valid(small_log()), PoolSettings(min_tasks_per_cluster=15), seed=0)


def test_unknown_key_is_an_error():
    with pytest.raises(ValidationError, match="Extra inputs"):
        PoolSettings(sample="fixed")
    with pytest.raises(ValidationError):
        PoolSettings(replicas=0)


def test_truth_is_not_compared_with_drawn_work(gavel_like):
    tables = gavel_like()
    tables["truth"] = tables["runs"][["task_id", "cluster_id"]].assign(duration_s=1.0, reliability=0.9)
    pool = build_pool(valid(tables), AS_LOGGED, seed=0)
    np.testing.assert_array_equal(pool.T_true, pool.T)
    np.testing.assert_array_equal(pool.A_true[pool.allowed], 0.9)


def test_drawn_samples_tell_nothing_of_measured_times(gavel_like):
    """They are a feature of tasks to predict. Without FLOPs a task counts as one of median FLOPs."""
    tables = valid(gavel_like())
    settings = changed(AS_LOGGED, replicas=2)
    pool = build_pool(tables, settings, seed=0)
    rng = np.random.default_rng(0)
    runs = tables["runs"].assign(step_time_s=lambda frame: frame["step_time_s"] * rng.lognormal(0, 2, len(frame)))
    other = build_pool({**tables, "runs": runs}, settings, seed=0)
    assert not np.allclose(pool.T[pool.allowed], other.T[pool.allowed])
    np.testing.assert_array_equal(pool.samples, other.samples)


def test_replicas_do_not_make_up_for_tasks_that_a_cluster_lacks(gavel_like):
    """Seven different tasks are seven, however many copies of each a pool has."""
    with pytest.raises(DataError, match=r"fewer than 8 tasks with a time .*gpu1 \(7\)"):
        build_pool(valid(gavel_like()), PoolSettings(replicas=30, min_tasks_per_cluster=8), seed=0)


def test_the_log_s_family_comes_before_the_model_s_word(small_log):
    tables = small_log()
    tables["tasks"]["family"] = ["kind", None]
    tables["tasks"]["model"] = ["vgg16", "resnet50"]
    assert build_pool(valid(tables), AS_LOGGED, seed=0).family.tolist() == ["kind", "resnet"]
    tables["tasks"]["model"] = ["vgg16", None]
    assert build_pool(valid(tables), AS_LOGGED, seed=0).family.tolist() == ["kind", "b"]
