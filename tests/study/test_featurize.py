"""Features of a study never see what they must not: times of validation and test tasks."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from graphs_by_hand import join, tables

from mfcp.data.log.tables import Tables
from mfcp.data.pool.task_pool import TaskPool
from mfcp.study.featurize import FeaturizeSettings, featurize
from mfcp.study.setting import PARTS

SOURCES, REPLICAS, CLUSTERS = 16, 2, 3
RULES = FeaturizeSettings(encoder={"kind": "timed", "epochs": 2}, settings=1, clusters=2, seeds=(0,))


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
    return Tables({"tasks": tasks, "nodes": nodes, "edges": edges}), pool


def test_timed_features_have_a_column_per_cluster_and_are_shared_by_replicas(log):
    study = featurize(*log, RULES)
    z = study.Z[0][:, [name.startswith("z") for name in study.feature_names]]
    assert z.shape == (SOURCES * REPLICAS, CLUSTERS)
    assert np.isfinite(z).all()
    assert np.array_equal(z[::2], z[1::2])


def test_times_of_unseen_tasks_leave_no_trace_in_timed_features(log):
    tables_, pool = log
    study = featurize(tables_, pool, RULES)
    unseen = study.split[0] != PARTS["train"]
    other = featurize(tables_, replace(pool, T=np.where(unseen, 100 * pool.T, pool.T)), RULES)
    assert np.array_equal(study.Z, other.Z)
    changed = featurize(tables_, replace(pool, T=np.where(unseen, pool.T, 100 * pool.T)), RULES)
    assert not np.allclose(study.Z, changed.Z)
