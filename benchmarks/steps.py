"""Measured steps of a log with operator graphs, folds by family, baselines and scores; for benchmarks/features.py."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mfcp.arrays import Floats, Ints, Texts
from mfcp.data.emulator_calibration import timed_steps
from mfcp.data.log.tables import Tables, read_tables
from mfcp.data.pool.splits import family_of
from mfcp.errors import DataError
from mfcp.folds import training_folds
from mfcp.tasks.graphs.operator_graphs import OperatorGraphs, build_graphs
from mfcp.tasks.graphs.operators import OPERATORS
from mfcp.tasks.timing.linear_head import Head
from mfcp.tasks.timing.measured_steps import MeasuredSteps
from mfcp.tasks.timing.roofline import Accelerator, fit_roofline

FOLDS = 5


@dataclass(frozen=True)
class Log:
    """Tasks of one phase that have an operator graph and a time, on the clusters that ran them."""

    clusters: tuple[str, ...]
    accelerators: tuple[Accelerator, ...]
    families: Texts
    steps: MeasuredSteps

    def of_clusters(self, rows: Sequence[int]) -> Log:
        """The same tasks on some of the clusters."""
        names, figures = (tuple(values[k] for k in rows) for values in (self.clusters, self.accelerators))
        s = self.steps
        return Log(names, figures, self.families, MeasuredSteps(s.graph, s.batch[rows], s.seconds[rows]))

    def folds(self, seed: int) -> Ints:
        """(n,) fold of each task, families whole."""
        return training_folds(self.families, np.ones((1, len(self.families)), bool), FOLDS, (seed,))[0]


def versioned_family(model: str) -> str:
    """As `family_of`, but every version is a family of its own: swinv2_tiny is a swinv, swin_tiny a swin."""
    found = re.search(re.escape(family_of(model)) + "[a-z]*", model.lower())
    return found.group() if found else model


FAMILIES: dict[str, Callable[[str], str]] = {"models": family_of, "versions": versioned_family}


def read_graphs(folder: Path) -> tuple[Tables, OperatorGraphs]:
    """Tables of a folder in the log schema, and the graphs among them.

    Raises:
        DataError: there are no graphs.
    """
    tables = read_tables(folder)
    if "nodes" not in tables or "edges" not in tables:
        raise DataError(f"{folder}: no operator graphs; expected tables nodes and edges, as `mfcp capture` makes them")
    return tables, build_graphs(tables["nodes"], tables["edges"])


def read_log(folder: Path, families: str) -> tuple[OperatorGraphs, dict[str, Log], dict[str, pd.DataFrame]]:
    """All graphs of a folder in the log schema, and its tasks by phase; `families` as in FAMILIES.

    Raises:
        DataError: there are no graphs, no task that has one was timed, or a cluster has no figures.
    """
    tables, graphs = read_graphs(folder)
    found = list(timed_steps(tables, graphs))
    logs = {}
    for phase in ("infer", "train"):
        measured = [(machine, steps) for machine, own, steps in found if own == phase]
        for machine, _ in measured:
            if not all(float(machine[name]) > 0 for name in ("peak_flops", "memory_bandwidth")):
                name = machine["cluster_id"]
                raise DataError(
                    f"{folder}: cluster {name} without peak_flops or memory_bandwidth; look them up, add them"
                )
        if measured:
            logs[phase] = _phase(graphs, tables["tasks"].set_index("task_id"), measured, FAMILIES[families])
    if not logs:
        raise DataError(f"{folder}: no run with step_time_s and batch_size of a task with a graph")
    return graphs, logs, dict(tables)


def _phase(
    graphs: OperatorGraphs,
    tasks: pd.DataFrame,
    measured: list[tuple[dict[Hashable, Any], pd.DataFrame]],
    family: Callable[[str], str],
) -> Log:
    tasks = tasks[tasks.index.isin(np.concatenate([steps.index for _, steps in measured]))]
    seconds, batch = (
        np.stack([steps[column].reindex(tasks.index).to_numpy(np.float64) for _, steps in measured])
        for column in ("seconds", "batch")
    )
    accelerators = tuple(
        Accelerator(
            float(machine["peak_flops"]),
            float(machine["memory_bandwidth"]),
            4.0 if steps["precision"].iloc[0] == "fp32" else 2.0,
            float(steps["batch"].median()),
        )
        for machine, steps in measured
    )
    families = np.array([family(model) for model in tasks["model"]])
    graph = graphs.positions(tasks["graph_id"].to_numpy(str))
    clusters = tuple(str(machine["cluster_id"]) for machine, _ in measured)
    return Log(clusters, accelerators, families, MeasuredSteps(graph, batch, seconds))


def totals(graphs: OperatorGraphs) -> Floats:
    """(G, 4) log operators, FLOPs, bytes and parameters."""
    amounts = (np.ones(len(graphs.kind)), graphs.flops, graphs.read + graphs.written, graphs.params)
    return np.log1p(np.column_stack([np.bincount(graphs.graph, a, len(graphs.graph_id)) for a in amounts]))


def histograms(graphs: OperatorGraphs) -> Floats:
    """(G, ·) totals, and the same by operator, log(1 + x)."""
    size, cell = len(graphs.graph_id), graphs.graph * len(OPERATORS) + graphs.operator
    amounts = (np.ones(len(graphs.kind)), graphs.flops, graphs.read + graphs.written, graphs.params)
    table = [np.bincount(cell, a, size * len(OPERATORS)).reshape(size, -1) for a in amounts]
    columns = np.log1p(np.concatenate(table, axis=1))
    return np.concatenate([totals(graphs), columns[:, np.ptp(columns, axis=0) > 0]], axis=1)


def boosted(X: Floats, y: Floats, unseen: Floats) -> Floats:
    from sklearn.ensemble import HistGradientBoostingRegressor

    model = HistGradientBoostingRegressor(
        max_iter=250, learning_rate=0.06, max_leaf_nodes=15, min_samples_leaf=10, max_features=0.3, random_state=0
    )
    return model.fit(X, y).predict(unseen)


def nearest(X: Floats, y: Floats, unseen: Floats) -> Floats:
    """Mean log time per sample of the five nearest training tasks by standardised totals."""
    from scipy.spatial import KDTree

    centre, scale = X.mean(axis=0), X.std(axis=0)
    return y[KDTree((X - centre) / scale).query((unseen - centre) / scale, k=5)[1]].mean(axis=1)


def with_new_head(known: Floats, ran: Ints, log_seconds: Floats, beside: Floats | None = None) -> Floats:
    """(n,) log values on a new cluster: the mean of those on known ones, corrected by a linear head of few runs.

    Args:
        known: (n, K) log values of tasks on known clusters.
        ran: (r,) tasks that have run on the new one.
        log_seconds: (r,) log values there.
        beside: (n, d) what else the head sees.
    """
    middle = known.mean(axis=1)
    columns = known - middle[:, None] if beside is None else np.column_stack([known - middle[:, None], beside])
    head = Head.start(columns, 0.3 / np.maximum(columns.std(axis=0), 1e-6))
    return middle + head.update(columns[ran], log_seconds - middle[ran]).correct(columns)[0]


def per_cluster(fit: Callable[[Floats, Floats, Floats], Floats], X: Floats, log: Log, train: Any, test: Any) -> Floats:
    """(M, tests) log seconds of a regression of log seconds per sample, one model a cluster."""
    s, rows = log.steps, []
    for seconds, batch in zip(s.seconds, s.batch, strict=True):
        known = train & np.isfinite(seconds)
        at, unseen = s.graph[known], s.graph[test]
        rows.append(fit(X[at], np.log(seconds[known] / batch[known]), X[unseen]) + np.log(batch[test]))
    return np.array(rows)


def rooflines(graphs: OperatorGraphs, log: Log, train: Any, test: Any) -> Floats:
    s, rows = log.steps, []
    for accelerator, seconds, batch in zip(log.accelerators, s.seconds, s.batch, strict=True):
        known = train & np.isfinite(seconds)
        own = fit_roofline(graphs.distinct.take(s.graph[known]), accelerator, batch[known], seconds[known])
        rows.append(own.log_seconds(graphs.distinct.take(s.graph[test]), np.nan_to_num(batch[test], nan=1.0)))
    return np.array(rows)


def scores(predicted: Floats, steps: MeasuredSteps) -> Floats:
    """(M, 3) MAPE in per cent, R² of log seconds of a step, and of log seconds per sample; nan entries are left out."""
    rows = []
    for p, t, b in zip(predicted, steps.seconds, steps.batch, strict=True):
        known = np.isfinite(p) & np.isfinite(t)
        log_t, square = np.log(t[known]), ((p[known] - np.log(t[known])) ** 2).mean()
        mape = 100 * np.abs(np.expm1(p[known] - log_t)).mean()
        rows.append((mape, 1 - square / log_t.var(), 1 - square / (log_t - np.log(b[known])).var()))
    return np.array(rows)


def ratio_interval(model: Floats, peer: Floats, seconds: Floats, families: Texts, draws: int = 2000) -> Floats:
    """(3,) ratio of mean MAPE, and a paired 95 % bootstrap interval over families; (S, M, n) log seconds."""
    known = np.isfinite(model) & np.isfinite(peer) & np.isfinite(seconds)
    names, index = np.unique(families, return_inverse=True)
    total = np.zeros((2, len(names), seconds.shape[0]))
    count = np.zeros((len(names), seconds.shape[0]))
    safe = np.log(np.where(np.isfinite(seconds), seconds, 1.0))
    np.add.at(count, index, known.sum(axis=0).T)
    for k, predicted in enumerate((model, peer)):
        error = np.where(known, np.abs(np.expm1(np.where(known, predicted - safe, 0.0))), 0.0).sum(axis=0)
        np.add.at(total[k], index, error.T)
    rng = np.random.default_rng(0)
    weight = np.concatenate(
        [np.ones((1, len(names))), rng.multinomial(len(names), [1 / len(names)] * len(names), draws)]
    )
    mape = np.stack([(weight @ t / (weight @ count)).mean(axis=1) for t in total])
    ratio = mape[0] / mape[1]
    return np.array([ratio[0], *np.quantile(ratio[1:], [0.025, 0.975])])
