"""Columns A and B of families.py: unseen families of models and unseen devices, on a log with operator graphs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.families_judged import Part
from benchmarks.steps import FOLDS, Log, histograms, read_log, totals, with_new_head
from benchmarks.workers import run
from mfcp.arrays import Bools, Floats, Ints
from mfcp.methods.base import register_members
from mfcp.predictors.forecast import Forecaster, TaskInputs, TrainingData
from mfcp.tasks.features.encoder import GnnEncoder
from mfcp.tasks.graphs.operator_graphs import OperatorGraphs
from mfcp.tasks.timing.measured_steps import MeasuredSteps
from mfcp.tasks.timing.new_cluster import NewCluster
from mfcp.tasks.timing.operator_times import OperatorTimes, fit_rooflines
from mfcp.tasks.timing.roofline import Accelerator, FittedRoofline, fit_roofline
from mfcp.tasks.timing.wave_scaling import wave_scaled

MEDIAN, CART, NEAREST, BOOSTED = "median", "one tree", "nearest", "boosted trees"
VECTOR, HEADS = "graph vector + trees", "graph network + heads"
ROOFLINE, WAVES = "roofline", "known device, scaled"
OPERATORS, COMBINED = "learned operators", "learned operators + a run elsewhere"
TREE = {"trees": 1, "lr": 1.0, "leaves": 31}
WARMUP_STEPS, TIMED_STEPS = 10, 10  # of a run that is profiled
NOISE = 0.05  # of a profiled step's log time
STATE: dict[str, Any] = {}


def prepare(folder: Path, *, profiled: bool = False) -> None:
    """Read the log once, for all worker processes.

    Args:
        folder: in the log schema.
        profiled: it is of `mfcp profile`. Clusters with a limit on memory, which are the same device again, are left
            out, and metadata have the batch, for every model ran at several.
    """
    register_members()
    graphs, logs, tables = read_log(folder, "models")
    if profiled:
        clusters = tables["clusters"]
        whole = clusters.groupby("accelerator", dropna=False)["memory_bytes"].transform("max")
        limited = set(clusters.loc[(clusters["memory_bytes"] < whole).fillna(False), "cluster_id"])
        logs = {phase: _without(log, limited) for phase, log in logs.items() if not limited.issuperset(log.clusters)}
    STATE.update(
        graphs=graphs, logs=logs, totals=totals(graphs), histograms=histograms(graphs), profiled=profiled,
        devices=", ".join(sorted(set(tables["clusters"]["accelerator"].dropna()))),
    )  # fmt: skip


def known_of(log: Log, what: str) -> Floats:
    """(n, d) numbers of tasks that metadata tell: totals or histograms of their graphs."""
    found: Floats = STATE[what][log.steps.graph]
    return np.column_stack([found, np.log(np.nanmean(log.steps.batch, axis=0))]) if STATE["profiled"] else found


def every_phase(phase: str) -> Log:
    """All tasks on all clusters, those of the phase first; a task has times on the clusters of its own phase alone."""
    logs = [STATE["logs"][phase], *(own for name, own in STATE["logs"].items() if name != phase)]
    shape = sum(len(log.clusters) for log in logs), sum(len(log.families) for log in logs)
    batch, seconds = np.full(shape, np.nan), np.full(shape, np.nan)
    cluster = task = 0
    for log in logs:
        place = slice(cluster, cluster + len(log.clusters)), slice(task, task + len(log.families))
        batch[place], seconds[place] = log.steps.batch, log.steps.seconds
        cluster, task = place[0].stop, place[1].stop
    return Log(
        tuple(name for log in logs for name in log.clusters),
        tuple(figures for log in logs for figures in log.accelerators),
        np.concatenate([log.families for log in logs]),
        MeasuredSteps(np.concatenate([log.steps.graph for log in logs]), batch, seconds),
    )


def _without(log: Log, clusters: set[str]) -> Log:
    """The other clusters, and the tasks that ran there."""
    own = log.of_clusters([k for k, name in enumerate(log.clusters) if name not in clusters])
    ran = np.isfinite(own.steps.seconds).any(axis=0)
    return replace(own, families=own.families[ran], steps=own.steps.select(ran))


def learned(log: Log, X: Floats, train: Bools, kind: str, settings: dict[str, Any], seed: int) -> Floats:
    """(M, n) log seconds of a forecaster of log seconds per sample; X (n, d) of tasks, `train` (M, n)."""
    s = log.steps
    Z = (X - X[train.any(0)].mean(0)) / np.maximum(X[train.any(0)].std(0), 1e-6)
    fold = np.where(train.any(0), log.folds(seed) % 4, -1)
    data = TrainingData(
        Z[None], np.where(train, s.seconds / s.batch, np.nan), np.where(train, 1.0, np.nan), train.astype(np.int64),
        train[None], np.zeros_like(train[None]), fold[None], (seed,),
    )  # fmt: skip
    model = Forecaster.build(kind, **settings).fit(data).model
    with answering():
        log_t = model(TaskInputs.of(Z[None], None))[0][0].detach().numpy()
    return log_t + np.log(s.batch)


def alike(accelerators: tuple[Accelerator, ...], cluster: int) -> Ints:
    """The other clusters, those of the most alike figures first."""
    figures = np.log([[a.peak, a.bandwidth] for a in accelerators])
    gap = ((figures - figures[cluster]) ** 2).sum(axis=1)
    order = np.argsort(gap, kind="stable")
    return order[order != cluster]


def elsewhere(log: Log, cluster: int) -> tuple[Ints, Floats, Floats]:
    """(n,) the most alike other cluster that ran each task, -1 for none; batch and seconds of a step there."""
    s = log.steps
    at = np.full(len(s.graph), -1)
    for other in reversed(alike(log.accelerators, cluster).tolist()):
        at = np.where(np.isfinite(s.seconds[other]), other, at)
    rows = np.arange(len(at))
    return at, *(np.where(at >= 0, values[at, rows], np.nan) for values in (s.batch, s.seconds))


def by_waves(log: Log, cluster: int, rooflines: dict[int, FittedRoofline]) -> Floats:
    """(n,) log seconds on a cluster, of each task's step on the most alike other one."""
    at, batch, seconds = elsewhere(log, cluster)
    found = np.full(len(at), np.nan)
    for other, own in rooflines.items():
        rows = np.flatnonzero(at == other)
        if len(rows):
            operators = STATE["graphs"].distinct.take(log.steps.graph[rows])
            target = rooflines[cluster].accelerator if cluster in rooflines else log.accelerators[cluster]
            found[rows] = wave_scaled(operators, own, batch[rows], seconds[rows], target)
            found[rows] += np.log(log.steps.batch[cluster, rows] / batch[rows])
    return found


def rooflines_of(log: Log, train: Bools) -> dict[int, FittedRoofline]:
    """Fitted to the training tasks of each cluster."""
    found = {}
    for i, accelerator in enumerate(log.accelerators):
        known = np.flatnonzero(train & np.isfinite(log.steps.seconds[i]))
        if len(known):
            s, operators = log.steps, STATE["graphs"].distinct.take(log.steps.graph[known])
            found[i] = fit_roofline(operators, accelerator, s.batch[i, known], s.seconds[i, known])
    return found


@contextmanager
def answering() -> Iterator[None]:
    """Within it, what takes time is answers and not learning."""
    begin = time.process_time()
    yield
    STATE["answering"] = STATE.get("answering", 0.0) + time.process_time() - begin


def timed(rows: dict[str, Floats], cost: dict[str, tuple[float, float]], name: str, made: Callable[[], Floats]) -> None:
    """Keep a row, the processor seconds of learning, and the milliseconds of an answer."""
    STATE["answering"], begin = 0.0, time.process_time()
    rows[name] = made()
    told = STATE["answering"]
    cost[name] = (time.process_time() - begin - told, 1000 * told / rows[name].size)


def family_fold(phase: str, seed: int, fold: int) -> tuple[Bools, dict[str, Floats], dict[str, tuple[float, float]]]:
    """Column A: the tasks of a fold, (M, n) log seconds by row, and what each row cost."""
    graphs: OperatorGraphs = STATE["graphs"]
    log: Log = STATE["logs"][phase]
    s, test = log.steps, log.folds(seed) == fold
    train = ~test & np.isfinite(s.seconds)
    rows: dict[str, Floats] = {}
    cost: dict[str, tuple[float, float]] = {}
    flat, counts = known_of(log, "totals"), known_of(log, "histograms")
    per_sample = np.where(train, np.log(s.seconds / s.batch), np.nan)
    timed(rows, cost, MEDIAN, lambda: np.nanmedian(per_sample, axis=1)[:, None] + np.log(s.batch))
    timed(rows, cost, CART, lambda: learned(log, flat, train, "boosted_trees", TREE, seed))
    timed(rows, cost, NEAREST, lambda: learned(log, flat, train, "nearest", {}, seed))
    timed(rows, cost, BOOSTED, lambda: learned(log, flat, train, "boosted_trees", {"trees": 250}, seed))
    timed(rows, cost, VECTOR, lambda: learned(log, counts, train, "boosted_trees", {"trees": 250}, seed))

    # Rows whose clusters share a network learn from the other phase, too, as a release does from its log.
    whole = every_phase(phase)
    usable, (M, n) = ~np.isin(whole.families, log.families[test]), s.seconds.shape
    timed(rows, cost, HEADS, lambda: _heads(whole, list(range(len(whole.clusters))), usable, seed)[:M, :n])
    own: dict[int, FittedRoofline] = {}

    def roofline() -> Floats:
        own.update(rooflines_of(log, ~test))
        with answering():
            operators = graphs.distinct.take(s.graph)
            return np.stack([own[i].log_seconds(operators, np.nan_to_num(b, nan=1.0)) for i, b in enumerate(s.batch)])

    timed(rows, cost, ROOFLINE, roofline)
    if len(log.clusters) > 1:

        def waves() -> Floats:
            with answering():
                return np.stack([by_waves(log, i, own) for i in range(len(log.clusters))])

        timed(rows, cost, WAVES, waves)

    def operators() -> Floats:
        steps = whole.steps.select(np.flatnonzero(usable & np.isfinite(whole.steps.seconds).any(axis=0)))
        fitted = OperatorTimes.fit(graphs, whole.accelerators, steps, seed=seed)
        with answering():
            return fitted.log_seconds(graphs.distinct.take(s.graph), whole.steps.batch[:, :n])[:M]

    timed(rows, cost, OPERATORS, operators)
    return test, {name: np.where(test, values, np.nan) for name, values in rows.items()}, cost


def with_run_elsewhere(log: Log, seed: int, predicted: Floats) -> Floats:
    """(M, n) log seconds that also know a step of each task on the most alike other cluster.

    Errors of a task on several clusters are normal with a covariance that the other folds' errors tell; a measured step
    has noise.
    """
    truth, fold = np.log(log.steps.seconds), log.folds(seed)
    error, found = truth - predicted, predicted.copy()
    for i in range(len(log.clusters)):
        at, _, _ = elsewhere(log, i)
        for f in range(FOLDS):
            for k in np.unique(at[(fold == f) & (at >= 0)]):
                both = (fold != f) & np.isfinite(error[i]) & np.isfinite(error[k])
                gain = (error[i, both] * error[k, both]).mean() / ((error[k, both] ** 2).mean() + NOISE**2)
                rows = (fold == f) & (at == k)
                found[i, rows] += gain * error[k, rows]
    return found


def column_a(phase: str, seeds: list[int], processes: int) -> Part:
    """Unseen families on the clusters of a phase's log."""
    log: Log = STATE["logs"][phase]
    jobs = [(phase, seed, fold) for seed in seeds for fold in range(FOLDS)]
    found = run(family_fold, jobs, processes, f"A, {phase}")
    names = list(found[0][1])
    whole = {name: np.full((len(seeds), *log.steps.seconds.shape), np.nan) for name in names}
    cost: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for (_, seed, _), (test, rows, taken) in zip(jobs, found, strict=True):
        for name in names:
            whole[name][seeds.index(seed)][:, test] = rows[name][:, test]
            cost[name].append(taken[name])
    if len(log.clusters) > 1:
        whole[COMBINED] = np.stack(
            [with_run_elsewhere(log, s, p) for s, p in zip(seeds, whole[OPERATORS], strict=True)]
        )
    step = float(np.nanmedian(log.steps.seconds)) * (WARMUP_STEPS + TIMED_STEPS)
    title = "unseen family" + (", training steps" if phase == "train" else "")
    name = f"A {phase}"
    if STATE["profiled"]:
        name, title = f"A {STATE['devices']} {phase}", f"{title}, on {STATE['devices']}"
    part = _part(log, name, title, whole)
    middle = {name: np.median(taken, axis=0).tolist() for name, taken in cost.items()}
    part.cost = {name: (training, answer) for name, (training, answer) in middle.items()}
    if COMBINED in whole:
        part.cost[COMBINED] = part.cost[OPERATORS]
    part.profiled = {name: step if name in (WAVES, COMBINED) else 0.0 for name in whole}
    return part


def _part(log: Log, column: str, title: str, whole: dict[str, Floats]) -> Part:
    """Pairs (M, n) as runs, those without a time left out."""
    seconds = log.steps.seconds
    cluster, task = np.nonzero(np.isfinite(seconds))
    # Tasks that no fold of this seed judged are in no row.
    judged = np.any([np.isfinite(v[:, cluster, task]).any(axis=0) for v in whole.values()], axis=0)
    cluster, task = cluster[judged], task[judged]
    rows = {name: values[:, cluster, task] for name, values in whole.items()}
    log_s, log_b = np.log(seconds[cluster, task]), np.log(log.steps.batch[cluster, task])
    ours = tuple(name for name in whole if name.startswith(OPERATORS))
    return Part(column, title, log_s, log_b, cluster, log.families[task], ours, rows)


def new_device(cluster: int, seed: int, fold: int) -> dict[tuple[str, str], Floats]:
    """Column B: (n,) log seconds on one cluster by (runs, row), of a fold's tasks, whose families nobody has seen."""
    graphs: OperatorGraphs = STATE["graphs"]
    log: Log = STATE["logs"]["infer"]
    s, test = log.steps, log.folds(seed) == fold
    others = [i for i in range(len(log.clusters)) if i != cluster]
    usable = np.isfinite(s.seconds[others]).any(axis=0) & ~test
    rest = MeasuredSteps(s.graph, s.batch[others], s.seconds[others]).select(np.flatnonzero(usable))
    accelerators = tuple(log.accelerators[i] for i in others)
    known = OperatorTimes.fit(graphs, accelerators, rest, seed=seed)
    reference = graphs.distinct.take(rest.graph)
    profiled = np.flatnonzero(~test & np.isfinite(s.seconds[cluster]))
    everything, batch = graphs.distinct.take(s.graph), np.nan_to_num(s.batch[cluster], nan=1.0)
    of_heads = _heads(log, others, usable, seed)
    own_rooflines = dict(zip(others, fit_rooflines(reference, accelerators, rest), strict=True))
    waves = by_waves(log, cluster, own_rooflines)
    at, _, there = elsewhere(log, cluster)
    of_known = known.log_seconds(everything, np.nan_to_num(s.batch[others], nan=1.0))
    gap = np.full(len(at), np.nan)  # what the known network is off by on the task's own step elsewhere
    for k, other in enumerate(others):
        gap = np.where(at == other, np.log(there) - of_known[k], gap)
    told = np.nan_to_num(_shared_error(log, seed, cluster) * gap)
    found: dict[tuple[str, str], Floats] = {}
    prior = _after(log, cluster, known, reference, profiled[:0])
    few = profiled[prior.worth_profiling(known, graphs.distinct.take(s.graph[profiled]), batch[profiled], 20, seed=0)]
    many = np.random.default_rng([seed, fold, cluster]).choice(profiled, len(profiled) // 10, replace=False)
    for runs, tasks in (("0", profiled[:0]), ("20", few), ("10 %", many)):
        truth = np.log(s.seconds[cluster, tasks])
        ours = _after(log, cluster, known, reference, tasks).predict(known, everything, batch).log_seconds
        found[runs, OPERATORS] = ours
        found[runs, COMBINED] = ours + told
        level = float(np.median(truth - waves[tasks])) if len(tasks) else 0.0
        found[runs, WAVES] = waves + level
        found |= {(runs, name): values for name, values in _plain(log, cluster, tasks, usable, own_rooflines).items()}
        if len(tasks):
            found[runs, HEADS] = _transferred(of_heads, log, cluster, tasks)
    judged = test & np.isfinite(s.seconds[cluster])
    return {key: np.where(judged, values, np.nan) for key, values in found.items()}


def _after(log: Log, cluster: int, known: OperatorTimes, reference: Any, tasks: Ints) -> NewCluster:
    """The cluster once these tasks have run on it."""
    s, graphs = log.steps, STATE["graphs"]
    own = graphs.distinct.take(s.graph[tasks])
    return NewCluster.fit(
        log.accelerators[cluster], known, own, s.batch[cluster, tasks], s.seconds[cluster, tasks], reference
    )


def _shared_error(log: Log, seed: int, cluster: int) -> float:
    """What share of an error on one known cluster another one has, by the errors of column A without this cluster."""
    error = np.log(log.steps.seconds) - STATE["out_of_fold"][seed]
    shares = []
    for i in range(len(error)):
        if i == cluster:
            continue
        nearest = next(k for k in alike(log.accelerators, i) if k != cluster)
        both = np.isfinite(error[i]) & np.isfinite(error[nearest])
        variance = (error[nearest, both] ** 2).mean() + NOISE**2
        shares.append((error[i, both] * error[nearest, both]).mean() / variance)
    return float(np.mean(shares))


def _plain(
    log: Log, cluster: int, tasks: Ints, usable: Bools, rooflines: dict[int, FittedRoofline]
) -> dict[str, Floats]:
    """Rows of metadata and the roofline, (n,) log seconds: without runs from the other clusters' tasks and figures."""
    s, graphs = log.steps, STATE["graphs"]
    flat, counts = STATE["totals"][s.graph], STATE["histograms"][s.graph]
    batch = s.batch[cluster]
    found: dict[str, Floats] = {}
    if len(tasks):
        one = log.of_clusters([cluster])
        train = np.isin(np.arange(len(batch)), tasks)[None]
        own = graphs.distinct.take(s.graph[tasks])
        fitted = fit_roofline(own, log.accelerators[cluster], batch[tasks], s.seconds[cluster, tasks])
        middle = np.median(np.log(s.seconds[cluster, tasks] / batch[tasks]))
        found[MEDIAN] = middle + np.log(batch)
        for name, X, kind, settings in (
            (CART, flat, "boosted_trees", TREE | {"least": 2}), (NEAREST, flat, "nearest", {}),
            (BOOSTED, flat, "boosted_trees", {"trees": 250, "least": 2}),
            (VECTOR, counts, "boosted_trees", {"trees": 250, "least": 2}),
        ):  # fmt: skip
            found[name] = learned(one, X, train, kind, settings, 0)[0]
    else:
        others = [i for i in range(len(log.clusters)) if i != cluster]
        fitted = FittedRoofline(log.accelerators[cluster], np.mean([rooflines[i].coefficients for i in others], axis=0))
        for name, X, settings in ((CART, flat, TREE), (BOOSTED, flat, {}), (VECTOR, counts, {})):
            found[name] = _over_devices(log, cluster, X, usable, settings)
    found[ROOFLINE] = fitted.log_seconds(graphs.distinct.take(s.graph), np.nan_to_num(batch, nan=1.0))
    return found


def _over_devices(log: Log, cluster: int, X: Floats, usable: Bools, settings: dict[str, Any]) -> Floats:
    """(n,) log seconds by trees that saw the other clusters' runs, each with its device's figures as columns."""
    s, names = log.steps, [i for i in range(len(log.clusters)) if i != cluster]
    figures = np.log([[a.peak, a.bandwidth] for a in log.accelerators])

    def beside(i: int) -> Floats:
        return np.column_stack([X, np.tile(figures[i], (len(X), 1))])

    n = len(X)
    rows = np.concatenate([beside(i) for i in [*names, cluster]])
    train = np.concatenate([*(np.isfinite(s.seconds[i]) & usable for i in names), np.zeros(n, bool)])[None]
    seconds, batch = (np.concatenate([v[i] for i in [*names, cluster]])[None] for v in (s.seconds, s.batch))
    graph, families = np.tile(s.graph, len(names) + 1), np.tile(log.families, len(names) + 1)
    pooled = Log(("all",), (log.accelerators[0],), families, MeasuredSteps(graph, batch, seconds))
    return learned(pooled, rows, train, "boosted_trees", {"trees": 250} | settings, 0)[0, -n:]


def _heads(log: Log, clusters: list[int], train: Bools, seed: int) -> Floats:
    """(K, n) log seconds on some clusters by a message-passing network of graphs and heads on its vectors."""
    s, graphs = log.steps, STATE["graphs"]
    z = GnnEncoder(size=8).fit(graphs, np.unique(s.graph[train]), seed=seed).transform(graphs)[s.graph]
    own = log.of_clusters(clusters)
    known = train & np.isfinite(own.steps.seconds)
    settings = {"training": {"epochs": 400, "lr": 0.01, "weight_decay": 0.1}}
    return learned(own, np.column_stack([known_of(log, "totals"), z]), known, "cross_fitted", settings, seed)


def _transferred(of_heads: Floats, log: Log, cluster: int, tasks: Ints) -> Floats:
    """(n,) log seconds by a new linear head on what the known clusters' heads say, per sample: Driple's transfer."""
    others = [i for i in range(len(log.clusters)) if i != cluster]
    columns = (of_heads - np.log(log.steps.batch[others])).T
    columns = np.where(np.isfinite(columns), columns, np.nanmean(columns, axis=1, keepdims=True))
    batch = log.steps.batch[cluster]
    per_sample = np.log(log.steps.seconds[cluster, tasks] / batch[tasks])
    return with_new_head(columns, tasks, per_sample) + np.log(batch)


def column_b(seeds: list[int], processes: int, fold: int = 0) -> list[Part]:
    """Every cluster in turn unknown."""
    log: Log = STATE["logs"]["infer"]
    jobs = [(cluster, seed, fold) for seed in seeds for cluster in range(len(log.clusters))]
    found = run(new_device, jobs, processes, "B")
    parts = []
    for runs in ("0", "20", "10 %"):
        whole: dict[str, Floats] = {}
        for (cluster, seed, _), rows in zip(jobs, found, strict=True):
            for (own, name), values in rows.items():
                if own == runs:
                    into = whole.setdefault(name, np.full((len(seeds), *log.steps.seconds.shape), np.nan))
                    into[seeds.index(seed), cluster] = values
        parts.append(_part(log, f"B {runs}", f"unseen device, {runs} runs", whole))
    return parts


def keep_out_of_fold(rows: Floats, seeds: list[int]) -> None:
    """Keep the (S, n) predictions of column A's runs as (M, n) tables by seed, for what errors have in common."""
    log: Log = STATE["logs"]["infer"]
    known = np.isfinite(log.steps.seconds)
    tables = {}
    for seed, values in zip(seeds, rows, strict=True):
        tables[seed] = np.full(known.shape, np.nan)
        tables[seed][known] = values
    STATE["out_of_fold"] = tables
