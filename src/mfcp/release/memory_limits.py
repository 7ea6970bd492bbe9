"""On which clusters a task is not expected to have the memory that it needs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from mfcp.arrays import Bools, Floats, Ints
from mfcp.data.pool.logged import families
from mfcp.data.pool.run_totals import floats, totals_of
from mfcp.folds import group_folds
from mfcp.tasks.features.descriptors import TaskFeatures
from mfcp.tasks.memory import MemoryRisk, PeakMemory, TrainingRuns

if TYPE_CHECKING:
    import pandas as pd

    from mfcp.data.log.tables import Tables

_FEW_PAIRS, _FEW_FAMILIES, _FOLDS = 20, 3, 5
_MOST_PAIRS = 1000  # more say little more
_UNLIKELY = 0.5  # a greater probability of running out of memory, and a task is not sent there
_STATES = 1.0  # numbers that an optimizer keeps of each weight; logs do not tell which it is, so a factor stands for it
_TRAINS = {"phase": "train", "precision": "fp32"}


@dataclass(frozen=True)
class MemoryLimits:
    """What tells the peak of a training step, and which clusters have less.

    Attributes:
        peak: bytes by graph and batch, for each of K kinds of accelerator; a process on a CPU and an allocator of a
            GPU keep other things.
        kind: (M,) which of them a cluster is, -1 of a kind whose runs told no peak.
        risk: of a run that is to peak at so many bytes.
        limit: (M,) bytes of one device, nan where they are not told.
    """

    peak: tuple[PeakMemory, ...]
    kind: Ints
    risk: MemoryRisk
    limit: Floats

    @classmethod
    def learn(cls, tables: Tables, cluster_id: tuple[str, ...], learned: frozenset[str]) -> MemoryLimits | None:
        """From runs that tell their peak, and from those that ended for want of memory.

        Args:
            tables: the log.
            cluster_id: M clusters.
            learned: tasks that may be learned from.

        Returns:
            None where no cluster tells its memory, or too few runs tell theirs: 20 pairs of a task and a cluster, of
            three families, of training steps in full precision that have a graph and a batch size.
        """
        tasks, clusters = tables["tasks"], tables["clusters"]
        limit = _of_clusters(clusters, cluster_id)
        totals, family = totals_of(tables), families(tables)
        own = clusters["cluster_id"].isin(cluster_id).to_numpy()[:, None]
        usable = own & (trains(tasks) & tasks["task_id"].isin(learned).to_numpy())
        if not np.isfinite(limit).any() or (usable & (totals.peak.count > 0)).sum() < _FEW_PAIRS:
            return None
        features = TaskFeatures.of(tables, tasks["task_id"].to_numpy(str))
        if features.graphs is None:
            return None
        runs = _steps(features)
        usable &= runs.graph >= 0
        failed = usable & (totals.starved > 0) & (totals.succeeded == 0)
        i, j = _some(usable & (totals.peak.count > 0))
        if len(j) < _FEW_PAIRS or len(set(family[j])) < _FEW_FAMILIES:
            return None
        peaks, kinds = totals.peak.mean[i, j], _kinds(clusters)
        # What says whether a run fits must not have learned the family's own peaks.
        fold = dict(zip(*_folds(family), strict=True))
        of_task = np.array([fold[name] for name in family])
        limits = floats(clusters["memory_bytes"])
        a, b = _some((failed | (usable & (totals.succeeded > 0))) & np.isfinite(limits)[:, None])
        predicted = np.full(len(b), np.nan)
        for part, kind in product(range(_FOLDS), np.unique(kinds)):
            known = (of_task[j] != part) & (kinds[i] == kind)
            asked = (of_task[b] == part) & (kinds[a] == kind)
            if known.any() and asked.any():
                fitted = PeakMemory.fit(features.graphs, runs.take(j[known]), peaks[known])
                predicted[asked] = fitted.predict(features.graphs, runs.take(b[asked]))
        sure = np.isfinite(predicted)
        risk = MemoryRisk.fit(predicted[sure], limits[a][sure], failed[a, b][sure])
        seen = np.unique(kinds[i])
        every = [PeakMemory.fit(features.graphs, runs.take(j[kinds[i] == k]), peaks[kinds[i] == k]) for k in seen]
        of_cluster = dict(zip(clusters["cluster_id"], kinds.tolist(), strict=True))
        place = {kind: k for k, kind in enumerate(seen.tolist())}
        kind_of = np.array([place.get(of_cluster.get(name, -1), -1) for name in cluster_id])
        return cls(tuple(every), kind_of, risk, limit)

    def peaks(self, features: TaskFeatures) -> Floats:
        """(M, n) bytes that a training step of each task would take on each cluster; nan without a graph or a batch.

        On a cluster of a kind whose runs told no peak it is the least of all kinds, so that a task is kept away only
        where every kind of memory would be too small.
        """
        found = np.full((len(self.kind), len(features.tasks)), np.nan)
        if features.graphs is None:
            return found
        runs = _steps(features)
        known = runs.graph >= 0
        by_kind = np.array([peak.predict(features.graphs, runs.take(known)) for peak in self.peak])
        found[:, known] = np.concatenate([by_kind, by_kind.min(axis=0, keepdims=True)])[self.kind]
        return found

    def lacking(self, peaks: Floats) -> Bools:
        """(M, n) where tasks that peak at so many bytes are not expected to fit; nowhere, where nothing is known."""
        limit = np.broadcast_to(self.limit[:, None], peaks.shape)
        known = np.isfinite(limit) & np.isfinite(peaks)
        result = np.zeros(known.shape, bool)
        result[known] = self.risk.risk(peaks[known], limit[known]) > _UNLIKELY
        return result

    def facts(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "factors": [peak.coefficients.tolist() for peak in self.peak],
            "kinds": self.kind.tolist(),
            "shift": self.risk.shift,
            "sd": self.risk.sd,
            "limits": [None if np.isnan(own) else float(own) for own in self.limit],
        }


def _kinds(clusters: pd.DataFrame) -> Ints:
    """(·,) kind of accelerator of each row, as a number."""
    if "accelerator" not in clusters:
        return np.zeros(len(clusters), np.int64)
    number: Ints = np.unique(clusters["accelerator"].fillna("").to_numpy(str), return_inverse=True)[1]
    return number


def _of_clusters(clusters: pd.DataFrame, cluster_id: tuple[str, ...]) -> Floats:
    """(M,) bytes of one device of each of these clusters, nan where they are not told."""
    if "memory_bytes" not in clusters:
        return np.full(len(cluster_id), np.nan)
    return floats(clusters.set_index("cluster_id")["memory_bytes"].reindex(list(cluster_id)))


def trains(tasks: pd.DataFrame) -> Bools:
    """(n,) which tasks say that they are training steps in full precision: only of these peaks are predicted."""
    if not {"phase", "precision"} <= set(tasks.columns):
        return np.zeros(len(tasks), bool)
    said = [(tasks[name].astype(object) == value).to_numpy(bool) for name, value in _TRAINS.items()]
    return np.asarray(said[0] & said[1])


def _steps(features: TaskFeatures) -> TrainingRuns:
    """The tasks as training steps; graph -1 of those without a graph or a batch."""
    tasks = features.tasks
    batch = floats(tasks["batch_size"]) if "batch_size" in tasks else np.full(len(tasks), np.nan)
    known = batch > 0
    graph = np.where(known, features.graph_at, -1)
    return TrainingRuns(graph, np.where(known, batch, 1.0), np.full(len(tasks), _STATES))


def _some(pairs: Bools) -> tuple[Ints, Ints]:
    """Cluster and task of these pairs, of very many some at equal distances."""
    i, j = np.nonzero(pairs)
    at = np.unique(np.linspace(0, max(len(i) - 1, 0), min(len(i), _MOST_PAIRS)).round().astype(np.int64))
    return i[at], j[at]


def _folds(family: Any) -> tuple[Any, Ints]:
    """Names of the families, and the fold of each."""
    names = np.unique(family)
    return names, group_folds(names, _FOLDS, np.random.default_rng(0))
