"""Times by networks over operators: what a log's steps teach them, and what they say of any task with a graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mfcp.arrays import Bools, Floats, Ints, Texts
from mfcp.data.log.tables import Tables
from mfcp.data.pool.run_totals import floats, totals_of
from mfcp.data.pool.splits import split_groups
from mfcp.data.pool.task_pool import TaskPool
from mfcp.folds import training_folds
from mfcp.tasks.features.descriptors import TaskFeatures
from mfcp.tasks.graphs.operator_graphs import OperatorGraphs
from mfcp.tasks.timing.cross_fitting import cross_fit
from mfcp.tasks.timing.measured_steps import MeasuredSteps, TimingSettings
from mfcp.tasks.timing.operator_times import OperatorTimes
from mfcp.tasks.timing.roofline import Accelerator, graph_roofline

if TYPE_CHECKING:
    import pandas as pd

_NOMINAL = (1e13, 5e11)  # FLOP/s and bytes/s of a cluster without figures, before its median time has scaled them


@dataclass(frozen=True)
class OperatorSteps:
    """The steps of a pool's source tasks, as networks over operators learn them.

    Args:
        features: of the n source tasks, with their graphs.
        steps: (M, n) batches and seconds on every cluster of the pool; graphs are positions, -1 for none.
        figures: (M, 2) public FLOP/s and bytes/s of the clusters' accelerators, nan where unknown.
        whole: (M, n) which steps were in full precision: as most of a pair's runs say, else as its task does.
        group: (n,) what a split keeps together.
    """

    features: TaskFeatures
    steps: MeasuredSteps
    figures: Floats
    whole: Bools
    group: Texts

    @classmethod
    def of(cls, tables: Tables, pool: TaskPool, features: TaskFeatures, index: Ints) -> OperatorSteps:
        """Steps behind the times of a pool.

        Args:
            tables: the log that the pool was made from.
            pool: times of n' tasks, replicas of source tasks among them.
            features: of the source tasks.
            index: (n',) source task of each task of the pool.
        """
        count = len(features.tasks)
        per_sample = typical_seconds(pool.T / pool.samples, pool.allowed, index, count)
        i = _positions(tables["clusters"]["cluster_id"], pool.cluster_id)
        j = _positions(tables["tasks"]["task_id"], features.tasks["task_id"].to_numpy(str))
        totals = totals_of(tables)
        batch, whole = (values.mean[np.ix_(i, j)] for values in (totals.batch, totals.whole))
        stated = _stated_batch(features)
        batch = np.where(np.isfinite(batch), batch, np.where(np.isfinite(stated), stated, 1.0))
        seconds = per_sample * pool.pool_size[:, None] * batch
        group = np.empty(count, pool.family.dtype)
        group[index] = split_groups(pool)
        clusters = tables["clusters"].iloc[i]
        figures = np.column_stack([floats(clusters[name]) for name in ("peak_flops", "memory_bandwidth")])
        steps = MeasuredSteps(features.graph_at, np.where(np.isfinite(seconds), batch, np.nan), seconds)
        own = _full_precision(features.tasks)
        return cls(features, steps, figures, np.where(np.isfinite(whole), whole >= 0.5, own), group)

    def fit(
        self, known: Bools, seed: int, settings: TimingSettings, *, advance: Callable[[], Any] = lambda: None
    ) -> tuple[OperatorPredictor | None, Floats]:
        """Train on known tasks (n,), a network per fold of their families.

        Returns:
            What predicts other tasks; None where fewer families than folds, or no cluster in all folds, have graphs and
            times. And (M, n) log seconds per sample, up to a constant per cluster: of known tasks by the networks that
            did not see their family, nan where nothing is said.
        """
        nothing = np.full(self.steps.seconds.shape, np.nan)
        usable = known & (self.steps.graph >= 0) & np.isfinite(self.steps.seconds).any(axis=0)
        if self.features.graphs is None or len(np.unique(self.group[usable])) < settings.members:
            return None, nothing
        fold = training_folds(self.group, usable[None], settings.members, (seed,))[0]
        there = np.isfinite(self.steps.seconds)
        rest = [(there & ((fold >= 0) & (fold != f))).any(axis=1) for f in range(settings.members)]
        rows = np.flatnonzero(np.logical_and.reduce(rest))
        if not len(rows):
            return None, nothing
        own = np.flatnonzero(usable)
        chosen = self.steps.select(own)
        accelerators = self._accelerators(rows, own)
        batch = _asked_batch(self.features, accelerators)[:, own]
        fitted, left_out = cross_fit(
            self._graphs(),
            accelerators,
            MeasuredSteps(chosen.graph, chosen.batch[rows], chosen.seconds[rows]),
            fold[own],
            batch,
            seed=seed,
            settings=settings,
            advance=advance,
        )
        predictor = OperatorPredictor(fitted, rows, len(self.figures))
        result = predictor.log_seconds(self.features)
        result[np.ix_(rows, own)] = left_out - np.log(batch)
        return predictor, result

    def _accelerators(self, rows: Ints, tasks: Ints) -> tuple[Accelerator, ...]:
        """The accelerators of some clusters, as far as some tasks tell; nothing else of other tasks is looked at.

        Precision and batch are those of most of the tasks. Where a cluster has no public figures, it gets nominal ones,
        scaled to its median time.
        """
        known, found = self.steps.select(tasks), []
        for i in rows:
            timed = np.flatnonzero(np.isfinite(known.seconds[i]))
            whole = self.whole[i][tasks[timed]].mean() >= 0.5
            about = (4.0 if whole else 2.0, float(np.median(known.batch[i][timed])))
            peak, bandwidth = self.figures[i]
            factor = 1.0
            if not (peak > 0 and bandwidth > 0):
                peak, bandwidth = _NOMINAL
                operators = self._graphs().distinct.take(known.graph[timed])
                ideal = graph_roofline(operators, [Accelerator(*_NOMINAL, *about)], known.batch[i][None, timed])[0]
                factor = float(np.exp(np.median(ideal - np.log(known.seconds[i][timed]))))
            found.append(Accelerator(float(peak) * factor, float(bandwidth) * factor, *about))
        return tuple(found)

    def _graphs(self) -> OperatorGraphs:
        assert self.features.graphs is not None
        return self.features.graphs


@dataclass(frozen=True)
class OperatorPredictor:
    """Networks over operators of K of a platform's M clusters.

    Args:
        times: trained networks and rooflines.
        rows: (K,) which clusters they know.
        clusters: M.
    """

    times: OperatorTimes
    rows: Ints
    clusters: int

    def log_seconds(self, features: TaskFeatures) -> Floats:
        """(M, n) log seconds per sample, up to a constant per cluster; nan for tasks without a graph.

        A step has as many samples as the task's row states, else as steps on that cluster typically have.
        """
        result = np.full((self.clusters, len(features.tasks)), np.nan)
        own = np.flatnonzero(features.graph_at >= 0)
        if features.graphs is None or not len(own):
            return result
        batch = _asked_batch(features, self.times.accelerators)[:, own]
        operators = features.graphs.distinct.take(features.graph_at[own])
        result[np.ix_(self.rows, own)] = self.times.log_seconds(operators, batch) - np.log(batch)
        return result


def typical_seconds(seconds: Floats, known: Bools, group: Ints, count: int) -> Floats:
    """(M, count) geometric means of the known entries of (M, n) seconds by (n,) group, nan where there is none."""
    rows = []
    for own, allowed in zip(seconds, known, strict=True):
        at = group[allowed]
        total, number = np.bincount(at, np.log(own[allowed]), count), np.bincount(at, minlength=count)
        rows.append(np.where(number > 0, np.exp(total / np.maximum(number, 1)), np.nan))
    return np.array(rows)


def _asked_batch(features: TaskFeatures, accelerators: tuple[Accelerator, ...]) -> Floats:
    """(K, n) samples of the steps to predict: what the task's row states, else what is typical of the cluster."""
    stated, typical = _stated_batch(features), np.array([a.batch for a in accelerators])
    return np.where(np.isfinite(stated), stated, typical[:, None])


def _stated_batch(features: TaskFeatures) -> Floats:
    """(n,) samples of a step that rows of tasks state, nan where they do not."""
    if "batch_size" not in features.tasks:
        return np.full(len(features.tasks), np.nan)
    stated = floats(features.tasks["batch_size"])
    return np.where(stated > 0, stated, np.nan)


def _full_precision(rows: pd.DataFrame) -> Bools:
    """(rows,) whether rows of tasks or runs tell full precision, or none."""
    if "precision" not in rows:
        return np.ones(len(rows), bool)
    result: Bools = (rows["precision"].fillna("fp32") == "fp32").to_numpy(bool)
    return result


def _positions(column: Any, names: Texts) -> Ints:
    import pandas as pd

    found: Ints = pd.Index(column).get_indexer(names).astype(np.int64)
    return found
