"""A small pool made by formula: what tests of methods, rules and evaluation run on."""

import numpy as np

from mfcp.data.pool.task_pool import TaskPool
from mfcp.study.reference import solved_setting
from mfcp.study.setting import RoundSettings, Setting
from mfcp.study.study_data import Study


def toy_pool(tasks=90, clusters=4, seed=0, missing=0.1):
    """Times from size and a cluster's affinity to a task's kind; reliabilities that fall with time."""
    rng = np.random.default_rng(seed)
    kind, size = rng.normal(size=tasks), rng.normal(0, 0.5, tasks)
    speed, affinity, hazard = (
        rng.normal(0, 0.2, clusters),
        rng.normal(0, 0.5, clusters),
        rng.uniform(0.02, 0.12, clusters),
    )
    T = np.exp(5 + size + speed[:, None] + affinity[:, None] * kind)
    A = np.exp(-hazard[:, None] * (T / 150) ** 0.7)
    allowed = rng.random(T.shape) > missing
    allowed[rng.integers(clusters, size=tasks), np.arange(tasks)] = True
    runs = np.where(allowed, 30, 0)
    shares = rng.binomial(runs, A) / 30
    pool = TaskPool(
        task_id=np.array([f"task{j}" for j in range(tasks)]),
        family=np.array([f"family{j % 15}" for j in range(tasks)]),
        source_task=np.array([f"task{j}" for j in range(tasks)]),
        cluster_id=np.array([f"cluster{i}" for i in range(clusters)]),
        T=np.where(allowed, T * np.exp(rng.normal(0, 0.02, T.shape)), np.nan),
        A=np.where(allowed, shares, np.nan),
        runs=runs,
        allowed=allowed,
        samples=np.ones(tasks),
        pool_size=np.ones(clusters),
        T_true=np.where(allowed, T, np.nan),
        A_true=np.where(allowed, A, np.nan),
        emulated=("runs",),
    )
    return pool, np.column_stack([kind, size, rng.normal(size=tasks)])


def toy_study(seeds=(0, 1), **how):
    """A study on the toy pool: two settings of three clusters, 60 / 15 / 25 % of the tasks."""
    pool, features = toy_pool(**how)
    split = []
    for seed in seeds:
        part = np.repeat([0, 1, 2], [9, 3, 3])
        np.random.default_rng([seed, 5]).shuffle(part)
        split.append(part[np.arange(len(features)) % 15])
    return Study(
        pool=pool,
        settings={"A": (0, 1, 2), "B": (1, 2, 3)},
        seeds=tuple(seeds),
        split=np.array(split),
        Z=np.repeat(features[None], len(seeds), axis=0),
        feature_names=("kind", "size", "noise"),
        operator_times=np.repeat(toy_operator_times(pool)[None], len(seeds), axis=0),
    )


def toy_operator_times(pool):
    """Log times within 5 %, up to a factor per cluster; every tenth task has no graph."""
    rng = np.random.default_rng(3)
    times = np.log(np.where(pool.allowed, pool.T_true, 1.0)) + rng.normal(0, 0.05, pool.T.shape)
    times[:, ::10] = np.nan
    return times - rng.normal(0, 1, (len(pool.cluster_id), 1))


def toy_setting(name="A", settings=None, price=4.0, **how) -> Setting:
    """One setting of the toy study."""
    return solved_setting(toy_study(**how), name, settings or RoundSettings(tasks=4, validation_rounds=40), price=price)
