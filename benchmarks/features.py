"""Predicted times of unseen model families from operator graphs: baselines, the network, and clusters with few runs.

    python benchmarks/features.py --data DIR                                      every table, seeds 0-2
    python benchmarks/features.py --data DIR --tables curve --seeds 0,1           new clusters only
    python benchmarks/features.py --data DIR --quick                              one fold of one seed

DIR is a folder in the log schema with `nodes`, `edges` and the batch size of every run. Five folds by model family; a
task's time is the seconds of one step at the logged batch size. MAPE is the mean of |predicted - measured| / measured;
R² is of the log seconds of a step and of those per sample (large models run in smaller batches, so steps vary less);
all are averaged over clusters, then over seeds. Ratios are to the histograms' MAPE, with a paired
bootstrap over families. Nothing was tuned on these seeds (on 1000, see docs/features.md).
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pandas as pd

from benchmarks.figures import plot
from benchmarks.steps import (
    FAMILIES,
    FOLDS,
    Log,
    boosted,
    histograms,
    nearest,
    per_cluster,
    ratio_interval,
    read_log,
    rooflines,
    scores,
    totals,
)
from benchmarks.workers import run
from mfcp.arrays import Floats, Ints
from mfcp.errors import guarded
from mfcp.tasks.graphs.operator_graphs import OperatorGraphs, build_graphs
from mfcp.tasks.timing.measured_steps import MeasuredSteps, TimingSettings
from mfcp.tasks.timing.new_cluster import NewCluster
from mfcp.tasks.timing.operator_times import OperatorTimes

RUNS = (0, 5, 10, 20, 50)
RANDOM, CHOSEN = "at random", "chosen"  # which tasks have a run on a new cluster
CURVE = [(runs, how) for how in (RANDOM, CHOSEN) for runs in RUNS if runs or how == RANDOM]
CURVE_FOLD = 0  # of each seed: a fifth of the tasks, unseen, on every cluster in turn
DRAWS = 5  # of the tasks, or of the groups that chosen ones stand for
PEER = "histograms + GBDT"
SHIPPED = "OperatorTimes: networks and roofline"
# What worker processes share with this one by being forked from it.
STATE: dict[str, Any] = {}


def compare(phase: str, seed: int, fold: int, model: str) -> dict[str, Floats]:
    """Log seconds (M, n) by row of the table for the tasks of a fold, nan elsewhere."""
    graphs, log, members = STATE["graphs"], STATE["logs"][phase], STATE["members"]
    test = log.folds(seed) == fold
    train = ~test
    if model == "network":
        settings = TimingSettings(members=members)
        fitted = OperatorTimes.fit(graphs, log.accelerators, log.steps.select(train), seed=seed, settings=settings)
        operators, batch = graphs.distinct.take(log.steps.graph[test]), log.steps.batch[:, test]
        alone = settings.model_copy(update={"roofline_share": 0.0})
        found = {
            "one operator network": replace(fitted, settings=alone, members=fitted.members[:1]).log_seconds(
                operators, batch
            ),
            SHIPPED: fitted.log_seconds(operators, batch),
        }
        if members > 1:
            found[f"mean of {members} networks"] = replace(fitted, settings=alone).log_seconds(operators, batch)
    elif model == "trees":
        found = {
            "flat totals + GBDT": per_cluster(boosted, STATE["totals"], log, train, test),
            PEER: per_cluster(boosted, STATE["histograms"], log, train, test),
        }
    else:
        found = {
            "kNN on totals": per_cluster(nearest, STATE["totals"], log, train, test),
            "operator roofline, fitted": rooflines(graphs, log, train, test),
        }
    whole = {}
    for name, values in found.items():
        whole[name] = np.full(log.steps.seconds.shape, np.nan)
        whole[name][:, test] = values
    return whole


def full(seed: int) -> Floats:
    """(M, n) log seconds of the curve's unseen families by a network that has seen every cluster."""
    graphs, log, settings = STATE["graphs"], STATE["logs"]["infer"], TimingSettings(members=1)
    train = np.flatnonzero(log.folds(seed) != CURVE_FOLD)
    fitted = OperatorTimes.fit(graphs, log.accelerators, log.steps.select(train), seed=seed, settings=settings)
    return fitted.log_seconds(graphs.distinct.take(log.steps.graph), log.steps.batch)


def curve(cluster: int, seed: int) -> dict[str, Any]:
    """A cluster left out: predictions for unseen families by number of runs."""
    graphs, log = STATE["graphs"], STATE["logs"]["infer"]
    test = log.folds(seed) == CURVE_FOLD
    train, s, settings = np.flatnonzero(~test), log.steps, TimingSettings(members=1)
    others = [i for i in range(len(log.clusters)) if i != cluster]
    rest = MeasuredSteps(s.graph, s.batch[others], s.seconds[others])
    usable = np.isfinite(rest.seconds).any(axis=0)
    rest = rest.select(np.flatnonzero(~test & usable))
    known = OperatorTimes.fit(graphs, tuple(log.accelerators[i] for i in others), rest, seed=seed, settings=settings)
    reference = graphs.distinct.take(rest.graph)
    measured = np.flatnonzero(test & np.isfinite(s.seconds[cluster]))
    operators, truth = graphs.distinct.take(s.graph[measured]), np.log(s.seconds[cluster, measured])
    profiled = train[np.isfinite(s.seconds[cluster, train])]

    def after(tasks: Ints) -> NewCluster:
        """The cluster once these tasks have run on it."""
        own, batch, seconds = graphs.distinct.take(s.graph[tasks]), s.batch[cluster, tasks], s.seconds[cluster, tasks]
        return NewCluster.fit(log.accelerators[cluster], known, own, batch, seconds, reference)

    prior, candidates = after(profiled[:0]), graphs.distinct.take(s.graph[profiled])

    def tasks_to_run(how: str, runs: int, draw: int) -> Ints:
        if how == CHOSEN:
            return profiled[prior.worth_profiling(known, candidates, s.batch[cluster, profiled], runs, seed=draw)]
        return np.random.default_rng([cluster, seed, runs, draw]).choice(profiled, runs, replace=False)

    found: dict[str, Any] = {"cluster": cluster, "seed": seed, "tasks": measured, "rows": []}
    for runs, how in CURVE:
        for draw in range(DRAWS if runs else 1):
            own = after(tasks_to_run(how, runs, draw)) if runs else prior
            predicted = own.predict(known, operators, s.batch[cluster, measured])
            inside = np.abs(predicted.log_seconds - truth) <= 1.645 * predicted.sd
            found["rows"].append((runs, how, predicted.log_seconds, float(inside.mean()), float(predicted.sd.mean())))
    return found


def print_table(phase: str, seeds: list[int], predictions: dict[str, Floats], every_cluster: bool) -> None:
    log = STATE["logs"][phase]
    size = f"{len(log.steps.graph)} tasks of {len(set(log.families))} families on {len(log.clusters)} clusters"
    print(f"\n{phase}, seeds {', '.join(map(str, seeds))}: {size}")
    heads = f"{'MAPE %':>7s} {'seeds':>13s} {'log R²':>7s} {'per sample':>11s} {'MAPE ratio to histograms':>26s}"
    print(f"{'':36s} {heads}")
    tables = {name: np.stack([scores(v, log.steps) for v in values]) for name, values in predictions.items()}
    for name, table in sorted(tables.items(), key=lambda item: -item[1][..., 0].mean()):
        mape, r2 = table[..., 0].mean(axis=1), table[..., 1:].mean(axis=(0, 1))
        ratio = ratio_interval(predictions[name], predictions[PEER], log.steps.seconds, log.families)
        row = f"{name:36s} {mape.mean():7.1f} {f'{mape.min():.1f}-{mape.max():.1f}':>13s} {r2[0]:7.3f} {r2[1]:11.3f}"
        print(f"{row} {ratio[0]:12.2f} [{ratio[1]:.2f}, {ratio[2]:.2f}]")
        if every_cluster:
            for cluster, (own, of_steps, of_samples) in zip(log.clusters, table.mean(axis=0), strict=True):
                print(f"    {cluster:32s} {own:7.1f} {'':13s} {of_steps:7.3f} {of_samples:11.3f}")


def print_worst(predicted: Floats, log: Log) -> None:
    """The five families with the largest share of squared error of log time; (S, M, n) log seconds."""
    names, index = np.unique(log.families, return_inverse=True)
    squares = np.nansum((predicted - np.log(log.steps.seconds)) ** 2, axis=(0, 1))
    share = np.bincount(index, squares) / squares.sum()
    worst = np.argsort(-share)[:5]
    print(f"squared error of {SHIPPED}: " + ", ".join(f"{names[k]} {share[k]:.0%}" for k in worst))


def one_cluster(steps: MeasuredSteps, one: dict[str, Any]) -> MeasuredSteps:
    """The steps of a cluster that was left out, of the tasks that were judged."""
    at = slice(one["cluster"], one["cluster"] + 1)
    return MeasuredSteps(steps.graph, steps.batch[at], steps.seconds[at]).select(one["tasks"])


def print_curve(found: list[dict[str, Any]], everything: dict[int, Floats], out: Path | None) -> None:
    """Means over clusters by number of runs; then each cluster's MAPE in one row."""
    log = STATE["logs"]["infer"]
    seeds = ", ".join(map(str, everything))
    print(f"\na new cluster, the others known: {len(log.clusters)} clusters, seeds {seeds}, {DRAWS} draws")
    heads = f"{'MAPE %':>8s} {'of full':>8s} {'seeds':>11s} {'log R²':>8s} {'in 90 % interval':>17s} {'mean sd':>8s}"
    print(f"{'runs':>12s} {heads}")

    def score(one: dict[str, Any], predicted: Floats) -> Floats:
        return scores(predicted[None], one_cluster(log.steps, one))[0]

    def by_seed_and_cluster(values: list[tuple[dict[str, Any], Floats]]) -> Floats:
        """(S, M) MAPE, mean over draws."""
        cells = [[(s, c) == (one["seed"], one["cluster"]) for one, _ in values] for s in everything for c in range(M)]
        mape = np.array([score(*value)[0] for value in values])
        return np.array([mape[cell].mean() for cell in cells]).reshape(len(everything), M)

    M = len(log.clusters)
    all_seen = [(one, everything[one["seed"]][one["cluster"], one["tasks"]]) for one in found]
    full_, full_r2 = by_seed_and_cluster(all_seen), np.mean([score(*value)[1] for value in all_seen])
    curve_, rows_ = {}, []
    for runs, how in CURVE:
        rows = [(one, row) for one in found for row in one["rows"] if row[:2] == (runs, how)]
        mape = by_seed_and_cluster([(one, row[2]) for one, row in rows])
        r2 = np.mean([score(one, row[2])[1] for one, row in rows])
        inside, sd = (np.mean([row[k] for _, row in rows]) for k in (3, 4))
        ratio = mape.mean(axis=1) / full_.mean(axis=1)
        curve_[runs, how] = float(mape.mean())
        label = f"{runs} {how}" if runs else "0, the prior"
        rows_.append((label, mape.mean(axis=0)))
        spread = f"{ratio.min():.2f}-{ratio.max():.2f}"
        line = f"{label:>12s} {mape.mean():8.1f} {mape.mean() / full_.mean():8.2f} {spread:>11s}"
        print(f"{line} {r2:8.3f} {inside:17.2f} {sd:8.2f}")
    print(f"{'full':>12s} {full_.mean():8.1f} {1:8.2f} {'':11s} {full_r2:8.3f}")
    print("MAPE by cluster: " + ", ".join(log.clusters))
    for name, values in (*rows_, ("full", full_.mean(axis=0))):
        print(f"{name:>12s} " + " ".join(f"{value:8.1f}" for value in values))
    if out is not None:
        plot(out / "new_cluster.png", lambda axes: draw_curve(axes, curve_, float(full_.mean())))


def draw_curve(axes: Any, mape: dict[tuple[int, str], float], full: float) -> None:
    for how in (RANDOM, CHOSEN):
        axes.plot(RUNS, [mape[runs, how if runs else RANDOM] for runs in RUNS], marker="o", label=how)
    axes.axhline(full, linestyle="--", color="gray", label="full training")
    axes.set(xlabel="profiled tasks on the new cluster", ylabel="MAPE on unseen families, %", ylim=(0, None))
    axes.legend()


def draw_times(axes: Any, predicted: Floats, log: Log) -> None:
    for name, p, t in zip(log.clusters, predicted, log.steps.seconds, strict=True):
        axes.loglog(t, np.exp(p), ".", markersize=2, label=name)
    axes.axline((1e-3, 1e-3), (1, 1), color="black", linewidth=0.5)
    axes.set(xlabel="measured seconds of a step", ylabel="predicted, family unseen")
    axes.legend(markerscale=4, fontsize=6)


def print_twins(tables: dict[str, Any], log: Log, graph_id: np.ndarray) -> None:
    """Graphs with equal operators, amounts and edges under models of different families."""
    told: dict[str, list[bytes]] = {str(name): [] for name in graph_id}
    for table in ("nodes", "edges"):
        rows = tables[table].drop(columns="graph_id")
        own = pd.util.hash_pandas_object(rows.astype(str), index=False).to_numpy(np.uint64)
        for name, at in tables[table].groupby("graph_id").indices.items():
            told[str(name)].append(np.sort(own[at]).tobytes())
    digest = [hashlib.sha256(b"/".join(parts)).digest() for parts in told.values()]
    families: dict[bytes, set[str]] = {}
    of_graph: dict[int, str] = dict(zip(log.steps.graph.tolist(), log.families.tolist(), strict=True))
    for graph, family in of_graph.items():
        families.setdefault(digest[graph], set()).add(family)
    twins = [graph for graph in of_graph if len(families[digest[graph]]) > 1]
    named = sorted({", ".join(sorted(families[digest[graph]])) for graph in twins})
    print(f"{len(twins)} of {len(of_graph)} graphs have an exact twin in another family: {'; '.join(named) or 'none'}")


def print_speed(tables: dict[str, Any], graphs: OperatorGraphs, log: Log) -> None:
    """Processor seconds of an epoch over every graph, and of the features of one task."""
    start = time.process_time()
    distinct = OperatorGraphs(**{k: v for k, v in vars(graphs).items() if k != "distinct"}).distinct
    built = time.process_time() - start
    steps = log.steps
    everything = np.arange(len(graphs.graph_id))
    column = np.full(len(everything), -1)
    column[steps.graph] = np.arange(len(steps.graph))
    at = np.where(column >= 0, column, 0)
    seconds = np.where(column >= 0, steps.seconds[:, at], np.nan)
    every = MeasuredSteps(everything, np.where(np.isfinite(seconds), steps.batch[:, at], np.nan), seconds)
    taken = []
    for epochs in (1, 1, 5):  # what the longest takes more than the second is epochs alone; the first warms up
        start, settings = time.process_time(), TimingSettings(members=1, epochs=epochs)
        fitted = OperatorTimes.fit(graphs, log.accelerators, every, seed=0, settings=settings)
        taken.append(time.process_time() - start)
    epoch = (taken[2] - taken[1]) / 4
    print(f"\n{len(graphs.kind)} operators, {len(distinct.kind)} distinct ones in {built:.1f} CPU s, once")
    print(f"an epoch over all {len(everything)} graphs: {epoch:.1f} CPU s on one core")
    members = replace(fitted, members=fitted.members * TimingSettings().members)
    taken = []
    for name in np.random.default_rng(0).choice(graphs.graph_id, 40, replace=False):
        nodes, edges = (tables[t][tables[t]["graph_id"] == name] for t in ("nodes", "edges"))
        start = time.process_time()
        members.log_seconds(build_graphs(nodes, edges).distinct)
        taken.append(1000 * (time.process_time() - start))
    print(f"features of one unseen task: median {np.median(taken):.0f} ms, slowest of 40 {max(taken):.0f} ms")


def fits(jobs: list[tuple[Any, ...]], processes: int) -> dict[tuple[Any, ...], Any]:
    """What each job answers, by the job: a function and its arguments."""
    return dict(zip(jobs, run(_call, jobs, processes, "features: fits"), strict=True))


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


def gather(found: dict[tuple[Any, ...], dict[str, Floats]], seeds: list[int]) -> dict[str, Floats]:
    """(S, M, n) log seconds by row of the table, from those of the folds."""
    rows: dict[str, list[Floats]] = {}
    for (_, _, seed, _, _), part in found.items():
        for name, values in part.items():
            own = rows.setdefault(name, [np.full(values.shape, np.nan) for _ in seeds])
            at = seeds.index(seed)
            own[at] = np.where(np.isfinite(values), values, own[at])
    return {name: np.stack(values) for name, values in rows.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder in the log schema, with graphs and batch sizes of runs")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--members", type=int, default=TimingSettings().members, help="networks in a mean")
    parser.add_argument(
        "--families",
        choices=FAMILIES,
        default="models",
        help="what a fold keeps together; versions: swin, swinv2 apart",
    )
    parser.add_argument("--quick", action="store_true", help="one fold of the first seed, one network")
    parser.add_argument("--clusters", action="store_true", help="a row for every cluster, too")
    parser.add_argument("--tables", default="infer,curve,train", help="which to print")
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--out", type=Path, help="folder for plots")
    arguments = parser.parse_args()
    if arguments.data is None:
        print("skipped: no measured graphs here; give a folder with --data")
        return
    seeds = [int(seed) for seed in arguments.seeds.split(",")][: 1 if arguments.quick else None]
    graphs, logs, tables = read_log(arguments.data, arguments.families)
    members = 1 if arguments.quick else arguments.members
    STATE.update(graphs=graphs, logs=logs, members=members, totals=totals(graphs), histograms=histograms(graphs))
    print_twins(tables, logs["infer"], graphs.graph_id)
    print_speed(tables, graphs, logs["infer"])
    wanted = ["infer"] if arguments.quick else arguments.tables.split(",")
    folds_ = range(1 if arguments.quick else FOLDS)
    for phase in [p for p in logs if p in wanted]:
        jobs = [(compare, phase, s, f, model) for s in seeds for f in folds_ for model in ("network", "trees", "rest")]
        predictions = gather(fits(jobs, arguments.processes), seeds)
        print_table(phase, seeds, predictions, arguments.clusters)
        print_worst(predictions[SHIPPED], logs[phase])
        if phase == "infer" and arguments.out:
            plot(
                arguments.out / "times.png", lambda axes, p=predictions[SHIPPED][0]: draw_times(axes, p, logs["infer"])
            )
    if "curve" in wanted:
        left_out = [(curve, c, seed) for seed in seeds for c in range(len(logs["infer"].clusters))]
        found = fits([(full, seed) for seed in seeds] + left_out, arguments.processes)
        everything = {seed: found[full, seed] for seed in seeds}
        print_curve([found[job] for job in left_out], everything, arguments.out)


if __name__ == "__main__":
    sys.exit(guarded(main))
