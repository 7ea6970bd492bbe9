"""Features of a study never see what they must not: times of validation and test tasks."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from graphs_by_hand import join, tables
from pydantic import ValidationError

from mfcp.data.log.tables import Tables
from mfcp.data.pool.task_pool import TaskPool
from mfcp.study.featurize import FeaturizeSettings, featurize
from mfcp.study.setting import PARTS
from mfcp.tasks.timing.measured_steps import TimingSettings

SOURCES, REPLICAS, CLUSTERS = 16, 2, 3
RULES = FeaturizeSettings(
    encoder="none", operator_times=TimingSettings(members=2, epochs=2), settings=1, clusters=2, seeds=(0,)
)


@pytest.fixture(scope="module")
def log():
    """Sixteen models of sixteen families, two tasks of each, on three clusters."""
    names = [f"t{k:02d}" for k in range(SOURCES)]
    nodes, edges = join(
        *(tables(["mm"] * (k + 1), [(i, i + 1) for i in range(k)], f"g{k:02d}") for k in range(SOURCES))
    )
    tasks = pd.DataFrame({"task_id": names, "graph_id": [f"g{k:02d}" for k in range(SOURCES)]})
    source = np.repeat(np.array(names), REPLICAS)
    n = len(source)
    rng = np.random.default_rng(0)
    pool = TaskPool(
        task_id=np.array([f"{s}/{k}" for k, s in enumerate(source)]),
        family=source,
        source_task=source,
        cluster_id=np.array(["a", "b", "c"]),
        T=rng.lognormal(size=(CLUSTERS, n)),
        A=np.full((CLUSTERS, n), 0.9),
        runs=np.full((CLUSTERS, n), 5),
        allowed=np.ones((CLUSTERS, n), bool),
        samples=rng.integers(1, 9, n).astype(float),
        pool_size=np.ones(CLUSTERS),
    )
    runs = pd.DataFrame({"task_id": names[:1], "cluster_id": ["a"], "status": ["succeeded"], "batch_size": [4.0]})
    clusters = pd.DataFrame(
        {"cluster_id": ["a", "b", "c"], "peak_flops": [1e13, 2e13, None], "memory_bandwidth": [5e11, 5e11, None]}
    )
    tasks["batch_size"] = np.nan
    return Tables({"tasks": tasks, "nodes": nodes, "edges": edges, "runs": runs, "clusters": clusters}), pool


def test_times_by_operators_stand_for_every_cluster_and_replicas_differ_by_their_samples(log):
    study = featurize(*log, RULES)
    times = study.operator_times
    assert times.shape == (1, CLUSTERS, SOURCES * REPLICAS)
    assert np.isfinite(times).all()
    per_sample = times[0] - np.log(log[1].samples)
    np.testing.assert_allclose(per_sample[:, ::2], per_sample[:, 1::2], rtol=1e-9)


def test_tasks_without_a_graph_are_counted_beside_others(log):
    tables_, pool = log
    tasks = tables_["tasks"]
    some = {**tables_, "tasks": tasks.assign(graph_id=tasks["graph_id"].where(tasks["task_id"] > "t02"))}
    (note,) = featurize(some, pool, RULES).pool.notes
    assert note.startswith("6 of 32 tasks have no times by operators")


def test_times_of_test_tasks_leave_no_trace(log):
    tables_, pool = log
    study = featurize(tables_, pool, RULES)
    unseen = study.split[0] == PARTS["test"]
    other = featurize(tables_, replace(pool, T=np.where(unseen, 100 * pool.T, pool.T)), RULES)
    assert np.array_equal(study.Z, other.Z)
    assert np.array_equal(study.operator_times, other.operator_times)
    changed = featurize(tables_, replace(pool, T=np.where(study.split[0] == PARTS["validation"], 9, 1) * pool.T), RULES)
    assert not np.allclose(study.operator_times[0][:, unseen], changed.operator_times[0][:, unseen])


def test_a_learned_task_is_timed_by_networks_that_did_not_see_its_family(log):
    """Other times of one family change every prediction but those for itself."""
    tables_, pool = log
    study = featurize(tables_, pool, RULES)
    learned = np.unique(pool.family[study.split[0] != PARTS["test"]])
    name = learned[0]
    own = pool.family == name
    other = featurize(tables_, replace(pool, T=np.where(own, 3.0, 1.0) * pool.T), RULES)
    kept = np.isclose(study.operator_times[0], other.operator_times[0], rtol=0, atol=1e-3).all(axis=0)
    assert kept[own].all()
    test = study.split[0] == PARTS["test"]
    assert not kept[test].any()
    assert 0.2 < kept[~test].mean() < 0.8  # those in its fold are timed by the network that left it out, the others not


def test_without_networks_a_study_has_no_times_by_operators_and_without_graphs_unknown_ones(log):
    tables_, pool = log
    assert featurize(tables_, pool, RULES.model_copy(update={"operator_times": None})).operator_times is None
    bare = Tables({name: frame for name, frame in tables_.items() if name not in ("nodes", "edges")})
    without = featurize(bare, pool, RULES)
    assert np.isnan(without.operator_times).all()
    (note,) = without.pool.notes
    assert note.startswith("32 of 32 tasks have no times by operators, for want of graphs")
    assert featurize(tables_, pool, RULES).pool.notes == ()
    assert featurize(bare, pool, RULES.model_copy(update={"operator_times": None})).pool.notes == ()


def test_held_out_families_are_in_no_split_or_are_the_test(log):
    """The same families under every seed; all others are divided as they would be without them."""
    tables_, pool = log
    rules = RULES.model_copy(update={"held_out": 0.25, "seeds": (0, 1), "operator_times": None})
    without = featurize(tables_, pool, rules)
    on_them = featurize(tables_, pool, rules.model_copy(update={"tests_on": "held_out"}))
    held = without.split[0] == -1
    assert held.sum() == SOURCES * REPLICAS / 4
    assert (without.split == -1).tolist() == [held.tolist()] * 2
    assert (on_them.split == PARTS["test"]).tolist() == [held.tolist()] * 2
    assert sorted(np.unique(without.split[:, ~held])) == [0, 1, 2]
    assert sorted(np.unique(on_them.split[:, ~held])) == [0, 1]
    drawn = featurize(tables_, pool, rules.model_copy(update={"tests_on": "held_out", "draw": 1}))
    assert (drawn.split[:, held] == -1).all()  # what is held out for good is in no other draw, not even to learn from
    assert (drawn.split == PARTS["test"]).sum() == 2 * held.sum()
    assert sorted(np.unique(drawn.split)) == [-1, 0, 1, 2]


@pytest.mark.parametrize("seeds", [(0, -1), (3, 3)])
def test_seeds_are_different_whole_numbers(seeds):
    with pytest.raises(ValidationError, match="expected different whole numbers of at least 0"):
        FeaturizeSettings(seeds=seeds)
