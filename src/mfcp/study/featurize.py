"""From a pool to a study: settings of clusters, splits by family, and features learned on training tasks only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, field_validator

from mfcp.arrays import Bools, Floats, Ints
from mfcp.data.log.tables import Tables
from mfcp.data.pool.splits import describe, draw_settings, held_out_tasks, qualifying_sets, split_tasks
from mfcp.data.pool.task_pool import TaskPool
from mfcp.registry import FamilyField
from mfcp.study.operator_steps import OperatorPredictor, OperatorSteps
from mfcp.study.setting import PARTS
from mfcp.study.study_data import Study
from mfcp.tasks.features.descriptors import (
    LOG_SAMPLES,
    EncodedTasks,
    TaskFeatures,
    log_samples,
)
from mfcp.tasks.features.encoder import Encoder
from mfcp.tasks.timing.measured_steps import TimingSettings
from mfcp.threads import beside

_MANY = 500  # tasks times seeds that are worth processes of their own: some seven seconds
LEAST_PART = 5
"""Tasks that validation and test each hold where a log has four times as many: a round of the usual size."""


class FeaturizeSettings(BaseModel):
    """Section `featurize` of params.yaml."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    encoder: FamilyField[Encoder]
    operator_times: TimingSettings | None = Field(
        TimingSettings(members=3, epochs=20), description="networks over operators, one per fold; null: none"
    )
    settings: int = Field(3, ge=1, description="how many settings A, B, C, …")
    clusters: int = Field(3, ge=2, description="M, clusters of a setting")
    settings_seed: int = Field(0, ge=0, description="seed of the draw of clusters")
    seeds: tuple[int, ...] = Field((0, 1, 2, 3, 4), min_length=1, description="one split and one training each")
    train: float = Field(0.6, gt=0, lt=1, description="share of training tasks")
    validation: float = Field(0.15, gt=0, lt=1, description="share of validation tasks; the rest are test tasks")
    held_out: float = Field(0.0, ge=0, lt=1, description="share of families that no split has")
    held_out_names: tuple[str, ...] = Field((), description="families that are held out instead of a share")
    draw: int = Field(0, ge=0, description="tests_on held_out: 0 tests on these, another number on as many others")
    tests_on: Literal["split", "held_out"] = Field(
        "split", description="test tasks: of each split, or the families held out from all of them"
    )
    settings_after: int = Field(0, ge=0, description="draw settings after so many, of clusters that these have not")

    @field_validator("seeds")
    @classmethod
    def _each_once(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        if min(seeds) < 0 or len(set(seeds)) < len(seeds):
            raise ValueError(f"expected different whole numbers of at least 0, got {list(seeds)}")
        return seeds


def featurize(
    tables: Tables, pool: TaskPool, settings: FeaturizeSettings, *, advance: Callable[[], Any] = lambda: None
) -> Study:
    """Draw settings and splits, fit the encoder per seed on its training tasks, and describe every task.

    The settings are upper limits: a log with fewer clusters or tasks has fewer settings, smaller rounds and larger
    parts for validation and test, and the pool's notes say so.

    Networks over operators learn the times of training and validation tasks on all clusters of the log, once for all
    settings; the pool's notes say for how many tasks they give none. Replicas of a task share its features but for the
    number of samples, which the user of a platform states.

    Args:
        tables: the validated log.
        pool: tasks × clusters made from it.
        settings: encoder, settings, seeds, shares.
        advance: called once per seed.
    """
    asked, settings = settings, fitted(settings, pool)
    notes = [
        f"{most} {name} instead of {want}: the log has no more"
        for name in ("clusters", "settings")
        if (want := getattr(asked, name)) > (most := getattr(settings, name))
    ]
    split = np.stack([_split(pool, seed, settings) for seed in settings.seeds])
    described = PoolFeatures.of(tables, pool, settings)
    calls = [(described, seed, part) for seed, part in zip(settings.seeds, split, strict=True)]
    needs = (
        []
        if described.source.graphs is None
        else ["mfcp.tasks.features.convolutions", "mfcp.tasks.features.graph_network"]
    )
    worth = len(calls) * len(described.source.tasks) >= _MANY
    parts = beside(_of_seed, calls, worth=worth, advance=advance, imports=needs)
    names, Z, times = zip(*parts, strict=True)
    if settings.operator_times is not None:
        notes += _without_operators(np.stack(times))
    return Study(
        pool=replace(pool, notes=(*pool.notes, *notes)),
        settings=draw_settings(
            pool, settings.settings, settings.clusters, settings.settings_seed, after=settings.settings_after
        ),
        seeds=settings.seeds,
        split=split,
        Z=np.stack(Z),
        feature_names=names[0],
        operator_times=None if settings.operator_times is None else np.stack(times),
    )


def _without_operators(times: Floats) -> list[str]:
    """A note of the tasks for which no seed has (S, M, n) times by operators: there, two methods may be the same."""
    unknown = int(np.isnan(times).all(axis=(0, 1)).sum())
    if not unknown:
        return []
    return [
        f"{unknown} of {times.shape[-1]} tasks have no times by operators, for want of graphs or of runs of tasks with "
        "graphs: the forecast operator_times gives those of its fallback"
    ]


def facts_of(study: Study) -> dict[str, Any]:
    """What a report says about the data of a study, as plain JSON values: see `describe`, settings and features."""
    settings = {name: [str(study.pool.cluster_id[c]) for c in own] for name, own in study.settings.items()}
    return describe(study.pool) | {"settings": settings, "features": study.Z.shape[2]}


def _of_seed(
    described: PoolFeatures, seed: int, part: Ints, advance: Callable[[], Any]
) -> tuple[tuple[str, ...], Floats, Floats]:
    """Names and values of features, and times by operators, as a seed's training tasks teach them."""
    encoded = described.encode(part == PARTS["train"], seed)
    learned = (part == PARTS["train"]) | (part == PARTS["validation"])
    times = described.operator_times(learned, seed)[1]
    advance()
    return encoded.names, encoded.Z, times


def fitted(settings: FeaturizeSettings, pool: TaskPool) -> FeaturizeSettings:
    """The settings with no more clusters and settings than a pool has, and parts of a split that hold a round."""
    clusters = min(settings.clusters, len(pool.cluster_id))
    while not (good := len(qualifying_sets(pool, clusters, settings.settings_seed))) and clusters > 2:
        clusters -= 1
    least = min(LEAST_PART, len(pool.task_id) // 4) / len(pool.task_id)
    validation = max(settings.validation, least)
    test = max(1 - settings.train - settings.validation, least)
    changes = {
        "clusters": clusters,
        "settings": max(1, min(settings.settings, good - settings.settings_after)),
        "validation": validation,
        "train": min(settings.train, 1 - validation - test),
    }
    return settings.model_copy(update=changes)


def _split(pool: TaskPool, seed: int, settings: FeaturizeSettings) -> Ints:
    """(n,) part of each task, -1 for tasks that are held out; with tests on these, the others train or validate."""
    shares = (settings.train, settings.validation, 1 - settings.train - settings.validation)
    if not settings.held_out:
        return split_tasks(pool, seed, shares).astype(np.int64)
    held = held_out_tasks(pool, settings.held_out, settings.held_out_names)
    on_held = settings.tests_on == "held_out"
    test = held_out_tasks(pool, settings.held_out, settings.held_out_names, draw=settings.draw) if on_held else held
    part = np.full(len(pool.task_id), -1)
    own = tuple(share / sum(shares[:2]) for share in shares[:2]) if on_held else shares
    part[~held & ~test] = split_tasks(pool.select(tasks=~held & ~test), seed, own)
    if on_held:
        part[test] = PARTS["test"]
    return part


@dataclass(frozen=True)
class PoolFeatures:
    """The features of a pool's tasks, with what does not depend on the split made once."""

    pool: TaskPool
    settings: FeaturizeSettings
    source: TaskFeatures
    index: Ints
    steps: OperatorSteps | None

    @classmethod
    def of(cls, tables: Tables, pool: TaskPool, settings: FeaturizeSettings) -> PoolFeatures:
        """Features of a pool made from `tables`."""
        names, index = np.unique(pool.source_task, return_inverse=True)
        source = TaskFeatures.of(tables, names)
        learns = settings.operator_times is not None and source.graphs is not None
        return cls(pool, settings, source, index, OperatorSteps.of(tables, pool, source, index) if learns else None)

    def encode(self, train: Bools, seed: int) -> EncodedTasks:
        """Features of every task of the pool, by an encoder fitted on tasks in `train` (n,)."""
        encoded = self.source.encode(self._sources(train), self.settings.encoder, seed)
        Z = np.column_stack([encoded.Z[self.index], log_samples(self.pool.samples)])
        return EncodedTasks((*encoded.names, LOG_SAMPLES), Z, encoded.encoder)

    def operator_times(self, known: Bools, seed: int) -> tuple[OperatorPredictor | None, Floats]:
        """What predicts times from operators, learned from tasks in `known` (n,), and its (M, n) log seconds.

        See `Setting.operator_times`; all are nan where nothing could be learned.
        """
        if self.steps is None or self.settings.operator_times is None:
            return None, np.full(self.pool.T.shape, np.nan)
        predictor, per_sample = self.steps.fit(self._sources(known), seed, self.settings.operator_times)
        return predictor, per_sample[:, self.index] + log_samples(self.pool.samples)

    def _sources(self, tasks: Bools) -> Bools:
        """The source tasks of some tasks of the pool."""
        chosen = np.zeros(len(self.source.tasks), bool)
        chosen[self.index[tasks]] = True
        return chosen
