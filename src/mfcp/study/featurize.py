"""From a pool to a study: settings of clusters, splits by family, and features learned on training tasks only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from mfcp.arrays import Bools, Ints
from mfcp.data.log.tables import Tables
from mfcp.data.pool.splits import draw_settings, split_groups, split_tasks
from mfcp.data.pool.task_pool import TaskPool
from mfcp.registry import FamilyField
from mfcp.study.setting import PARTS
from mfcp.study.study_data import Study
from mfcp.tasks.features.descriptors import (
    LOG_SAMPLES,
    EncodedTasks,
    TaskFeatures,
    TaskTimes,
    log_samples,
    typical_seconds,
)
from mfcp.tasks.features.encoder import Encoder


class FeaturizeSettings(BaseModel):
    """Section `featurize` of params.yaml."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    encoder: FamilyField[Encoder]
    settings: int = Field(3, ge=1, description="how many settings A, B, C, …")
    clusters: int = Field(3, ge=2, description="M, clusters of a setting")
    settings_seed: int = Field(0, ge=0, description="seed of the draw of clusters")
    seeds: tuple[int, ...] = Field((0, 1, 2, 3, 4), min_length=1, description="one split and one training each")
    train: float = Field(0.6, gt=0, lt=1, description="share of training tasks")
    validation: float = Field(0.15, gt=0, lt=1, description="share of validation tasks; the rest are test tasks")


def featurize(
    tables: Tables, pool: TaskPool, settings: FeaturizeSettings, *, advance: Callable[[], Any] = lambda: None
) -> Study:
    """Draw settings and splits, fit the encoder per seed on its training tasks, and describe every task.

    Replicas of a task share its features but for the number of samples, which the user of a platform states.

    Args:
        tables: the validated log.
        pool: tasks × clusters made from it.
        settings: encoder, settings, seeds, shares.
        advance: called once per seed.
    """
    shares = (settings.train, settings.validation, 1 - settings.train - settings.validation)
    split = np.stack([split_tasks(pool, seed, shares) for seed in settings.seeds])
    described = PoolFeatures.of(tables, pool, settings.encoder)
    Z = []
    for seed, part in zip(settings.seeds, split, strict=True):
        encoded = described.encode(part == PARTS["train"], seed)
        Z.append(encoded.Z)
        advance()
    return Study(
        pool=pool,
        settings=draw_settings(pool, settings.settings, settings.clusters, settings.settings_seed),
        seeds=settings.seeds,
        split=split.astype(np.int64),
        Z=np.stack(Z),
        feature_names=encoded.names,
    )


@dataclass(frozen=True)
class PoolFeatures:
    """The features of a pool's tasks, with what does not depend on the split made once."""

    pool: TaskPool
    encoder: Encoder
    source: TaskFeatures
    index: Ints
    times: TaskTimes | None

    @classmethod
    def of(cls, tables: Tables, pool: TaskPool, encoder: Encoder) -> PoolFeatures:
        """Features of a pool made from `tables`."""
        source, index = np.unique(pool.source_task, return_inverse=True)
        times = _times(pool, index) if encoder.learns_times else None
        return cls(pool, encoder, TaskFeatures.of(tables, source), index, times)

    def encode(self, train: Bools, seed: int) -> EncodedTasks:
        """Features of every task of the pool, by an encoder fitted on tasks in `train` (n,)."""
        learn = np.zeros(len(self.source.tasks), bool)
        learn[self.index[train]] = True
        encoded = self.source.encode(learn, self.encoder, seed, self.times)
        Z = np.column_stack([encoded.Z[self.index], log_samples(self.pool.samples)])
        return EncodedTasks((*encoded.names, LOG_SAMPLES), Z, encoded.encoder)


def _times(pool: TaskPool, index: Ints) -> TaskTimes:
    """Observed seconds per sample of the source tasks that `index` (n,) names, the mean over replicas in log time."""
    count = int(index.max()) + 1
    seconds = typical_seconds(pool.T / pool.samples, pool.allowed, index, count)
    own_group = split_groups(pool)
    group = np.empty(count, own_group.dtype)
    group[index] = own_group
    return TaskTimes(seconds, group)
