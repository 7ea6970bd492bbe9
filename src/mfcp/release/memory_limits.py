"""On which clusters a task is not expected to have the memory that it needs."""

from __future__ import annotations

from dataclasses import dataclass
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
        peak: bytes by graph and batch.
        risk: of a run that is to peak at so many bytes.
        limit: (M,) bytes of one device, nan where they are not told.
    """

    peak: PeakMemory
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
        peaks = totals.peak.mean[i, j]
        # What says whether a run fits must not have learned the family's own peaks.
        fold = dict(zip(*_folds(family), strict=True))
        of_task = np.array([fold[name] for name in family])
        limits = floats(clusters["memory_bytes"])
        a, b = _some((failed | (usable & (totals.succeeded > 0))) & np.isfinite(limits)[:, None])
        predicted = np.full(len(b), np.nan)
        for part in range(_FOLDS):
            known, asked = of_task[j] != part, of_task[b] == part
            if known.any() and asked.any():
                fitted = PeakMemory.fit(features.graphs, runs.take(j[known]), peaks[known])
                predicted[asked] = fitted.predict(features.graphs, runs.take(b[asked]))
        sure = np.isfinite(predicted)
        risk = MemoryRisk.fit(predicted[sure], limits[a][sure], failed[a, b][sure])
        return cls(PeakMemory.fit(features.graphs, runs.take(j), peaks), risk, limit)

    def peaks(self, features: TaskFeatures) -> Floats:
        """(n,) bytes that a training step of each task would take; nan without a graph or a batch."""
        found = np.full(len(features.tasks), np.nan)
        if features.graphs is None:
            return found
        runs = _steps(features)
        known = runs.graph >= 0
        found[known] = self.peak.predict(features.graphs, runs.take(known))
        return found

    def lacking(self, peaks: Floats) -> Bools:
        """(M, n) where tasks that peak at so many bytes are not expected to fit; nowhere, where nothing is known."""
        known = np.isfinite(self.limit)[:, None] & np.isfinite(peaks)
        limit, peak = np.broadcast_arrays(self.limit[:, None], peaks)
        result = np.zeros(known.shape, bool)
        result[known] = self.risk.risk(peak[known], limit[known]) > _UNLIKELY
        return result

    def facts(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "factors": self.peak.coefficients.tolist(),
            "shift": self.risk.shift,
            "sd": self.risk.sd,
            "limits": [None if np.isnan(own) else float(own) for own in self.limit],
        }


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
