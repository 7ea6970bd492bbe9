"""Task descriptors: what is known of a task before it runs, as one row of numbers.

Nothing here reads a measured time. Columns are on a log scale where amounts span decades; they are not
standardised, which is left to the consumer, on its training tasks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from mfcp.arrays import Bools, Floats, Ints, Texts
from mfcp.errors import DataError
from mfcp.tasks.graphs.operator_graphs import OperatorGraphs, build_graphs, depth
from mfcp.tasks.graphs.operators import CLASS_NAMES

if TYPE_CHECKING:
    import pandas as pd

    from mfcp.tasks.features.encoder import Encoder, FittedEncoder


AMOUNTS = ("param_count", "flops", "activations", "batch_size", "input_size")
CATEGORIES = ("domain", "phase", "precision", "model")
_VECTOR = re.compile(r"z\d+")
LOG_SAMPLES = "log_samples"
"""Last feature of every task. It is no descriptor: replicas of a task may differ in it."""

MOST_CATEGORIES = 12  # a category with more values than this, or than half the tasks, says too little of unseen ones


def describe_tasks(
    tasks: pd.DataFrame, graphs: OperatorGraphs | None = None, *, histograms: bool = False
) -> tuple[tuple[str, ...], Floats]:
    """Descriptors of tasks, without labels.

    - `log_<amount>` of parameters, FLOPs, activations, batch size and input size;
    - `<category>=<value>` for domain, phase, precision, and for the model where there are few;
    - of the operator graph, which replaces the activations: operators, FLOPs and bytes, log(1 + x); with
      `histograms` also parameters, edges, depth, and all amounts by class of operator;
    - `no_<amount>` and `no_graph` where that is unknown; the values are then 0.

    Columns that are the same for all tasks are left out. The number of samples is left out too: replicas of
    a task may differ in it.

    Args:
        tasks: n rows of the `tasks` table.
        graphs: operator graphs, found by `graph_id`; None where the log has none.
        histograms: what suits trees; small networks learn model families by heart from them
            (docs/decisions/0031).

    Returns:
        d names, and an (n, d) matrix.
    """
    columns: dict[str, Floats] = {}
    has_graphs = graphs is not None and len(graphs.graph_id) > 0
    for name in AMOUNTS:
        if not (has_graphs and name == "activations"):
            columns |= _amount(tasks, name)
    for name in CATEGORIES:
        columns |= _category(tasks, name)
    if graphs is not None and has_graphs:
        columns |= _graph_columns(tasks, graphs, histograms)
    names = tuple(name for name, values in columns.items() if len(values) and np.ptp(values) > 0)
    return names, describe_as(names, tasks, graphs)


def describe_as(names: Sequence[str], tasks: pd.DataFrame, graphs: OperatorGraphs | None) -> Floats:
    """(n, d) the descriptors called `names`, of the tasks that `describe_tasks` chose them by, or of others.

    A value is nan where a task lacks what all those tasks had, because no column says then that it is missing. A
    category that none of those tasks had is none of theirs; one that is not stated is unknown, unless it was for some.

    Args:
        names: d names of descriptors.
        tasks: n rows of the `tasks` table.
        graphs: their operator graphs, None where there are none.
    """
    n = len(tasks)
    tasks = tasks.reindex(columns=list(dict.fromkeys([*tasks.columns, *AMOUNTS, *CATEGORIES, "graph_id"])))
    groups = {f"no_{name}": _amount(tasks, name) for name in AMOUNTS}
    if graphs is not None and len(graphs.graph_id):
        groups["no_graph"] = _graph_columns(tasks, graphs, histograms=any("count_" in name for name in names))
    columns = {"no_graph": np.ones(n)}
    for flag, own in groups.items():
        absent = own[flag] > 0
        columns |= own if flag in names else {name: np.where(absent, np.nan, own[name]) for name in own}
    texts = {category: _texts(tasks[category]) for category in CATEGORIES}
    for name in names:
        category, found, value = name.partition("=")
        if found:
            stated = (texts[category] == value).astype(np.float64)
            silent = tasks[category].isna().to_numpy(bool) & (f"{category}=unknown" not in names)
            columns[name] = np.where(silent, np.nan, stated)
    without_graphs = np.full(n, 0.0 if "no_graph" in names else np.nan)
    return np.array([columns.get(name, without_graphs) for name in names]).reshape(len(names), n).T


def _amount(tasks: pd.DataFrame, name: str) -> dict[str, Floats]:
    if name not in tasks:
        return {}
    values = tasks[name].to_numpy(np.float64, na_value=np.nan)
    known = np.isfinite(values) & (values > 0)
    return {f"log_{name}": np.log(np.where(known, values, 1.0)), f"no_{name}": (~known).astype(np.float64)}


def _category(tasks: pd.DataFrame, name: str) -> dict[str, Floats]:
    if name not in tasks:
        return {}
    text = _texts(tasks[name])
    values = np.unique(text)
    if len(values) > min(MOST_CATEGORIES, max(2, len(tasks) // 2)):
        return {}
    return {f"{name}={value}": (text == value).astype(np.float64) for value in values}


def _texts(column: pd.Series[str]) -> Texts:
    return column.to_numpy(object, na_value="unknown").astype(str)


def _graph_columns(tasks: pd.DataFrame, graphs: OperatorGraphs, histograms: bool) -> dict[str, Floats]:
    at = graph_positions(tasks, graphs)
    known = at >= 0
    table = {name: np.where(known, values[at], 0.0) for name, values in summarise(graphs, histograms).items()}
    return {**table, "no_graph": (~known).astype(np.float64)}


def graph_positions(tasks: pd.DataFrame, graphs: OperatorGraphs) -> Ints:
    """(n,) position of each task's graph, -1 where it has none."""
    column = tasks["graph_id"]
    return graphs.positions(column.astype(object).where(column.notna(), "").to_numpy(str))


def summarise(graphs: OperatorGraphs, histograms: bool) -> dict[str, Floats]:
    """Size of each graph, with `histograms` also its depth and operators by class, log(1 + x): (G,) by name."""
    size, classes = len(graphs.graph_id), len(CLASS_NAMES)
    amounts = {"count": np.ones(len(graphs.kind)), "flops": graphs.flops, "bytes": graphs.read + graphs.written}
    columns: dict[str, Floats] = {}
    if histograms:
        amounts["params"] = graphs.params
        columns["graph_depth"] = np.zeros(size)
        np.maximum.at(columns["graph_depth"], graphs.graph, depth(graphs.edges, len(graphs.kind)) + 1.0)
        columns["graph_edges"] = np.bincount(graphs.graph[graphs.edges[0]], minlength=size).astype(np.float64)
    cell = graphs.graph * classes + graphs.kind
    for name, amount in amounts.items():
        table: Floats = np.bincount(cell, amount, size * classes).astype(np.float64).reshape(size, classes)
        columns[f"graph_{name}"] = table.sum(axis=1)
        if histograms:
            columns |= {f"{name}_{CLASS_NAMES[k]}": table[:, k] for k in range(classes)}
    return {f"log_{name}": np.log1p(values) for name, values in columns.items()}


@dataclass(frozen=True)
class TaskFeatures:
    """The one way from rows of a log to features: `encode` learns which they are, `under` computes them.

    Training and serving both use `under`, so that a task has the same features in both.

    Args:
        tasks: n rows of the `tasks` table.
        graphs: their operator graphs, None where the log has none.
    """

    tasks: pd.DataFrame
    graphs: OperatorGraphs | None

    @classmethod
    def of(cls, tables: dict[str, pd.DataFrame], task_ids: Texts) -> TaskFeatures:
        """The named tasks of a log; graphs of other tasks are not looked at.

        Raises:
            DataError: an id that the `tasks` table lacks, or damaged graphs.
        """
        indexed = tables["tasks"].set_index("task_id")
        missing = ~np.isin(task_ids, indexed.index.to_numpy(str))
        if missing.any():
            raise DataError(f"tasks: no task_id '{np.asarray(task_ids)[missing][0]}'; describe tasks of this log only")
        tasks = indexed.loc[list(task_ids)].reset_index()
        graphs = None
        if "nodes" in tables and "edges" in tables and "graph_id" in tasks:
            used = tasks["graph_id"].dropna().unique()
            nodes, edges = (tables[name][tables[name]["graph_id"].isin(used)] for name in ("nodes", "edges"))
            graphs = build_graphs(nodes, edges) if len(nodes) else None
        return cls(tasks, graphs)

    @cached_property
    def descriptors(self) -> tuple[str, ...]:
        """The names that `describe_tasks` chooses for these tasks; they do not depend on a split."""
        return describe_tasks(self.tasks, self.graphs)[0]

    @cached_property
    def graph_at(self) -> Ints:
        """(n,) position of each task's graph, -1 where it has none."""
        return np.full(len(self.tasks), -1) if self.graphs is None else graph_positions(self.tasks, self.graphs)

    def under(self, names: Sequence[str], encoder: FittedEncoder | None) -> Floats:
        """(n, d) the features called `names`, descriptors first and then the encoder's vector of each task's graph.

        A descriptor that a task lacks is nan, see `describe_as`. The vector of a task without a graph is 0 where a
        descriptor says that it has none, else nan.

        Args:
            names: as in `EncodedTasks`, of these tasks or of others.
            encoder: the one behind the vectors, None where there were no graphs.
        """
        own = names if encoder is None else [name for name in names if not _VECTOR.fullmatch(name)]
        if encoder is None or self.graphs is None:
            absent = np.full((len(self.tasks), len(names) - len(own)), _absent(own))
            return np.concatenate([describe_as(own, self.tasks, self.graphs), absent], axis=1)
        return self._joined(own, encoder, self.graphs)

    def _joined(self, own: Sequence[str], encoder: FittedEncoder, graphs: OperatorGraphs) -> Floats:
        z = np.where((self.graph_at >= 0)[:, None], encoder.transform(graphs)[self.graph_at], _absent(own))
        return np.concatenate([describe_as(own, self.tasks, graphs), z], axis=1)

    def encode(self, train: Bools, encoder: Encoder, seed: int) -> EncodedTasks:
        """Descriptors and, beside them, the encoder's vector of each task's graph, fitted on training graphs only.

        Args:
            train: (n,) which tasks may be learned from.
            encoder: member of the encoder family.
            seed: of the encoder's training.
        """
        if self.graphs is None:
            return EncodedTasks(self.descriptors, self.under(self.descriptors, None), None)
        fitted = encoder.fit(self.graphs, np.unique(self.graph_at[train & (self.graph_at >= 0)]), seed=seed)
        Z = self._joined(self.descriptors, fitted, self.graphs)
        vector = (f"z{k}" for k in range(Z.shape[1] - len(self.descriptors)))
        return EncodedTasks((*self.descriptors, *vector), Z, fitted)


@dataclass(frozen=True)
class EncodedTasks:
    """Names (d,) and matrix Z (n, d) of features, and the encoder behind the last of them; None without graphs."""

    names: tuple[str, ...]
    Z: Floats
    encoder: FittedEncoder | None


def _absent(names: Sequence[str]) -> float:
    """What stands for the vector of a task without a graph: nan where no descriptor says that it has none."""
    return 0.0 if "no_graph" in names else np.nan


def log_samples(samples: Floats) -> Floats:
    """(n,) the feature `LOG_SAMPLES`: logarithm of the samples that each task processes, nan where it does not say."""
    work: Floats = np.log(np.where(samples > 0, samples, np.nan))
    return work
