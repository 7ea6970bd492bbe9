"""Columns C, D and E of families.py: devices without a run, allocations and models, numbers of accelerators."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import neusight, qoredl
from benchmarks.families_hindsight import HINDSIGHT, best_regressions
from benchmarks.families_judged import Part
from benchmarks.steps import read_graphs, totals, with_new_head
from mfcp.arrays import Bools, Floats, Ints, Texts
from mfcp.errors import DataError
from mfcp.folds import training_folds
from mfcp.progress import progress
from mfcp.simulator.traces.files import read_table
from mfcp.tasks.graphs.operator_graphs import OperatorGraphs
from mfcp.tasks.memory import OPTIMIZER_STATES, MemoryRisk, PeakMemory, TrainingRuns
from mfcp.tasks.timing.allocated import AllocatedTimes, Allocations
from mfcp.tasks.timing.kernel_times import KernelTimes
from mfcp.tasks.timing.scaled_times import ScaledTimes
from mfcp.tasks.timing.scaling_fit import ScaledRuns, ScalingFit

FOLDS = 5
MEDIAN, CART, NEAREST, BOOSTED, FOREST = "median", "one tree", "nearest", "boosted trees", "forest"
KERNELS, BOUND, NEIGHBOUR = "learned kernels", "roofline of kernels", "known device, scaled"
NEW_HEAD = "known devices + a new head"
REPLAYED, REPLAYED_BOUND, SAME = "replayed, learned kernels", "replayed, roofline", "same seconds a sample"
PROCESS, FIT, SCALED, OWN_FIT = "processes", "profiled fit, of all jobs", "profiled fit + processes", "profiled fit"
Learner = Callable[[Floats, Floats, Floats], Floats]


def one_tree(x: Floats, y: Floats, asked: Floats) -> Floats:
    """A regression tree of best-first growth, as `boosted_trees` with one tree has it."""
    return _lightgbm(x, y, asked, n_estimators=1, learning_rate=1.0)


def boosted(x: Floats, y: Floats, asked: Floats) -> Floats:
    """Boosted trees with the settings of the forecaster."""
    return _lightgbm(x, y, asked, n_estimators=250, learning_rate=0.08, num_leaves=15)


def _lightgbm(x: Floats, y: Floats, asked: Floats, **settings: float) -> Floats:
    from lightgbm import LGBMRegressor

    model = LGBMRegressor(min_child_samples=3, verbose=-1, n_jobs=1, random_state=0, **settings).fit(x, y)
    return np.asarray(model.predict(asked))


def nearest(x: Floats, y: Floats, asked: Floats, count: int = 5) -> Floats:
    """Mean of the nearest rows of standardised columns."""
    from scipy.spatial import KDTree

    middle, scale = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-6)
    at = KDTree((x - middle) / scale).query((asked - middle) / scale, k=min(count, len(x)))[1]
    return y[at].reshape(len(asked), -1).mean(axis=1)


def median(x: Floats, y: Floats, asked: Floats) -> Floats:
    """The median of all."""
    return np.full(len(asked), np.median(y))


METADATA: dict[str, Learner] = {MEDIAN: median, CART: one_tree, NEAREST: nearest, BOOSTED: boosted}


def column_c(folder: Path) -> list[Part]:
    """Devices that NeuSight did not learn from, and, of ours, every known device left out in turn."""
    log = neusight.read(folder)
    runs, seconds, seen = log.runs, log.seconds, log.seen
    at = runs.device
    asked = np.flatnonzero(~seen[at] & np.isfinite(seconds))
    parts = []
    if len(asked):
        begin = time.process_time()
        rows = _of_devices(log, seen, asked)
        taken = time.process_time() - begin
        for system, name in neusight.PUBLISHED.items():
            rows[f"{name} (published)"] = np.log(log.published(system)[asked])[None]
        parts.append(_devices(log, "C", "device without a run", asked, rows))
        parts[0].cost[KERNELS] = (taken, 1000 * taken / len(log.graphs))
    known = np.flatnonzero(seen[at] & np.isfinite(seconds))
    left: dict[str, Floats] = {}
    devices = np.unique(at[known])
    with progress("C, known devices left out", len(devices)) as advance:
        for device in devices:
            own = known[at[known] == device]
            for name, values in _of_devices(log, seen & (np.arange(len(seen)) != device), own).items():
                left.setdefault(name, np.full((1, len(known)), np.nan))[:, np.isin(known, own)] = values
            advance()
    for system, name in neusight.PUBLISHED.items():
        left[f"{name} (published; has seen them)"] = np.log(log.published(system)[known])[None]
    return [*parts, _devices(log, "C left out", "known devices, each left out", known, left)]


def column_r(folder: Path) -> list[Part]:
    """What a step takes with another batch, or with operators fused, from one that was measured on the same device."""
    log, fused = neusight.read(folder), neusight.read(folder, neusight.FUSED)
    names = ["device", "model", "phase", "sequence_length"]
    parts = []
    for asked, title, what in (
        (log, "another batch than the one that was measured", names),
        (fused, "operators fused, the same run measured without", [*names, "batch_size"]),
    ):
        known = np.isfinite(log.seconds)
        left = log.cases.assign(measured=np.arange(len(log.cases)))[known][[*what, "batch_size", "measured"]]
        right = asked.cases.assign(asked=np.arange(len(asked.cases)))[np.isfinite(asked.seconds)]
        left = left.loc[:, ~left.columns.duplicated()]
        pairs = right.merge(left, on=what, suffixes=("", "_measured"))
        if asked is log:
            pairs = pairs[pairs["asked"] != pairs["measured"]]
        if len(pairs):
            parts.append(_replays(log, asked, pairs["asked"].to_numpy(), pairs["measured"].to_numpy(), title))
    return parts


def _replays(log: neusight.Log, asked: neusight.Log, rows: Ints, measured: Ints, title: str) -> Part:
    """By pairs of a run and a measured one; nothing else of the run's model is known, on any device."""
    models, known = log.cases["model"].to_numpy(str), np.isfinite(log.seconds)
    model, device = asked.cases["model"].to_numpy(str)[rows], log.runs.device[measured]
    single = np.isfinite(log.kernel_seconds)
    found = {name: np.full(len(rows), np.nan) for name in (KERNELS, REPLAYED, REPLAYED_BOUND, SAME)}
    with progress(title, len(np.unique(model))) as advance:
        for name in np.unique(model):
            learned, own = np.flatnonzero(known & (models != name)), model == name
            fitted = KernelTimes.fit(
                log.devices, log.kernels.take(single), log.kernel_device[single], log.kernel_seconds[single],
                [log.graphs[i] for i in learned], log.runs.take(learned), log.seconds[learned],
            )  # fmt: skip
            graphs, runs = [asked.graphs[i] for i in rows[own]], asked.runs.take(rows[own])
            before, ran = [log.graphs[i] for i in measured[own]], log.runs.take(measured[own])
            found[KERNELS][own] = np.log(fitted.predict(graphs, runs)[0])
            found[REPLAYED][own] = np.log(fitted.replayed(graphs, runs, before, ran, log.seconds[measured[own]]))
            advance()
    samples = [np.log(own.cases["batch_size"].to_numpy(float)) for own in (asked, log)]
    step = np.log(log.seconds[measured])
    bounds = [
        [_bound(own, i, d) for i, d in zip(at, device, strict=True)] for own, at in ((asked, rows), (log, measured))
    ]
    found[SAME] = step + samples[0][rows] - samples[1][measured]
    found[REPLAYED_BOUND] = step + np.log(np.array(bounds[0]) / np.array(bounds[1]))
    names = np.array(log.devices.name)[device]
    column = "R batch" if asked is log else "R fused"
    told = {name: values[None] for name, values in found.items()}
    y = np.log(asked.seconds[rows])
    return Part(column, title, y, samples[0][rows], np.zeros(len(rows), np.int64), names, (REPLAYED,), told)


def _devices(log: neusight.Log, column: str, title: str, rows: Ints, found: dict[str, Floats]) -> Part:
    device = log.runs.device[rows]
    names = np.array(log.devices.name)[device]
    return Part(column, title, np.log(log.seconds[rows]), np.zeros(len(rows)), device, names, (KERNELS,), found)


def _of_devices(log: neusight.Log, usable: Bools, asked: Ints) -> dict[str, Floats]:
    """(1, n) log seconds of runs on devices that are not usable, by row."""
    runs, seconds = log.runs, log.seconds
    single = usable[log.kernel_device] & np.isfinite(log.kernel_seconds)
    known = np.flatnonzero(usable[runs.device] & np.isfinite(seconds))
    graphs = [log.graphs[i] for i in known]
    fitted = KernelTimes.fit(
        log.devices, log.kernels.take(single), log.kernel_device[single], log.kernel_seconds[single],
        graphs, runs.take(known), seconds[known],
    )  # fmt: skip
    asked_graphs = [log.graphs[i] for i in asked]
    bound = np.array([_bound(log, i, int(runs.device[i])) for i in range(len(log.graphs))])
    d = log.devices
    figures = np.log(np.column_stack([d.peak, d.bandwidth, d.units]))
    X = np.column_stack([np.log(bound), figures[runs.device], runs.phase == "train"])
    y = np.log(seconds)
    found = {KERNELS: np.log(fitted.predict(asked_graphs, runs.take(asked))[0]), BOUND: np.log(bound[asked])}
    found |= {name: METADATA[name](X[known], y[known], X[asked]) for name in (CART, NEAREST, BOOSTED)}
    scaled = np.full(len(asked), np.nan)
    for k, i in enumerate(asked):
        same = known[runs.run[known] == runs.run[i]]
        if len(same):
            gap = ((figures[runs.device[same]] - figures[runs.device[i]]) ** 2).sum(axis=1)
            near = same[gap.argmin()]
            scaled[k] = y[near] + np.log(bound[i] / bound[near])
    return {name: values[None] for name, values in (found | {NEIGHBOUR: scaled}).items()}


def _bound(log: neusight.Log, run: int, device: int) -> float:
    kernels = log.graphs[run]
    each = np.maximum(*kernels.sides(log.devices, np.full(len(kernels.kind), device)))
    return float((each * kernels.count).sum())


def column_d(folder: Path, draws: int) -> list[Part]:
    """Allocations of known models, and models that nobody has run."""
    x, measured = qoredl.read(folder / "iteration_time.parquet")
    y, logs = np.log(measured[qoredl.SECONDS]), np.log(x)
    configuration = np.unique(x, axis=0, return_inverse=True)[1].ravel()
    model = np.unique(x[:, : len(qoredl.WORK)], axis=0, return_inverse=True)[1].ravel()

    def by_log(name: str) -> Learner:
        return lambda a, b, c: np.log(qoredl.LEARNERS[name](np.exp(a), np.exp(b), np.exp(c)))

    names = {FOREST: by_log(qoredl.FOREST), "extra trees": by_log("extra trees, logs"),
             PROCESS: by_log("processes (AllocatedTimes)")}  # fmt: skip
    learners = METADATA | names
    parts = []
    for column, title, group in (
        ("D configuration", "unseen configuration", configuration), ("D model", "unseen model", model),
    ):  # fmt: skip
        if group.max() == 0:
            print(f"{column}: skipped, there is one alone", file=sys.stderr)
            continue
        found, cost = _folds(column, learners, logs, y, group, draws)
        one = np.zeros(len(y), np.int64)
        if column == "D configuration":
            found["profiled mean"] = _other_runs(configuration, y)[None]
        parts.append(Part(column, title, y, np.log(x[:, 0]), one, group.astype(str), (PROCESS,), found, cost))
    return parts


def _other_runs(configuration: Ints, y: Floats) -> Floats:
    """(n,) mean log seconds of the other runs of the same configuration, nan where there are none."""
    total, count = np.bincount(configuration, y)[configuration], np.bincount(configuration)[configuration]
    return np.where(count > 1, (total - y) / np.maximum(count - 1, 1), np.nan)


def _folds(
    what: str, learners: dict[str, Learner], x: Floats, y: Floats, group: Ints, draws: int
) -> tuple[dict[str, Floats], dict[str, tuple[float, float]]]:
    """(S, n) predictions by row, and seconds of training with ms an answer."""
    found = {name: np.full((draws, len(y)), np.nan) for name in learners}
    cost, count = {}, min(FOLDS, int(group.max()) + 1)
    with progress(what, draws * count * len(learners)) as advance:
        for name, learner in learners.items():
            begin = time.process_time()
            for seed in range(draws):
                fold = qoredl.folds(group, seed)
                for f in range(count):
                    train = fold != f
                    found[name][seed, ~train] = learner(x[train], y[train], x[~train])
                    advance()
            taken = (time.process_time() - begin) / (draws * count)
            cost[name] = (taken, 1000 * taken / (len(y) / count))
    return found, cost


def column_b(folder: Path, draws: int) -> list[Part]:
    """Job types without graphs on one accelerator of three kinds, each kind in turn unknown; Gavel's table."""
    runs, clusters, tasks = gavel_tables(folder)
    table = runs.merge(clusters[clusters["accelerator_count"] == 1], on="cluster_id")
    table = table[(table["status"].astype(str) == "succeeded") & table["step_time_s"].notna()]
    wide = table.pivot_table(index="task_id", columns="cluster_id", values="step_time_s").dropna()
    y = np.log(wide.to_numpy(float)).T
    batch = np.log(table.groupby("task_id")["batch_size"].first().reindex(wide.index).to_numpy(float, na_value=1.0))
    models = tasks.set_index("task_id").loc[wide.index, "model"].to_numpy(str)
    figures = clusters.set_index("cluster_id").loc[wide.columns, ["peak_flops", "memory_bandwidth"]]
    log_figures = np.log(figures.to_numpy(float))
    parts = []
    for count in (0, 5):
        found: dict[str, Floats] = {}
        for s in range(draws if count else 1):
            for i in range(len(y)):
                for name, values in _of_new_kind(y, batch, log_figures, i, count, s).items():
                    into = found.setdefault(name, np.full((draws if count else 1, *y.shape), np.nan))
                    into[s, i] = values
        rows = {name: values.reshape(len(values), -1) for name, values in found.items()}
        kind = np.repeat(np.arange(len(y)), y.shape[1])
        title = f"Gavel: unseen kind of accelerator, {count} job types have run there"
        ours = (NEW_HEAD,) if count else (NEIGHBOUR,)
        batches = np.tile(batch, len(y))
        parts.append(Part(f"B Gavel {count}", title, y.ravel(), batches, kind, np.tile(models, len(y)), ours, rows))
    return parts


def _of_new_kind(y: Floats, batch: Floats, figures: Floats, kind: int, count: int, seed: int) -> dict[str, Floats]:
    """(n,) log seconds of the types that have not run on a kind of accelerator, nan of the others."""
    n, others = y.shape[1], np.arange(len(y)) != kind
    ran = np.random.default_rng([seed, kind]).permutation(n)[:count]
    near = np.flatnonzero(others)[((figures[others] - figures[kind]) ** 2).sum(axis=1).argmin()]
    scaled = y[near] + (figures[near] - figures[kind]).mean()
    X = np.column_stack([y[others].T, batch])
    found = {NEIGHBOUR: scaled}
    if count:
        found[NEIGHBOUR] = scaled + np.median(y[kind, ran] - scaled[ran])
        found[NEW_HEAD] = with_new_head(y[others].T, ran, y[kind, ran], batch[:, None])
        found |= {name: METADATA[name](X[ran], y[kind, ran], X) for name in (CART, NEAREST, BOOSTED)}
    else:
        pairs = [(a, b) for a in np.flatnonzero(others) for b in np.flatnonzero(others) if a != b]
        rows = [np.column_stack([y[a], batch, np.tile(figures[b] - figures[a], (n, 1))]) for a, b in pairs]
        asked = np.column_stack([y[near], batch, np.tile(figures[kind] - figures[near], (n, 1))])
        for name in (CART, NEAREST, BOOSTED):
            found[name] = METADATA[name](np.concatenate(rows), np.concatenate([y[b] for _, b in pairs]), asked)
    unseen = ~np.isin(np.arange(n), ran)
    return {name: np.where(unseen, values, np.nan) for name, values in found.items()}


def gavel_tables(folder: Path) -> tuple[Any, Any, Any]:
    """Tables runs, clusters and tasks of Gavel's throughputs."""
    needs = {
        "runs": ("task_id", "cluster_id", "status", "step_time_s", "batch_size"),
        "clusters": (
            "cluster_id", "accelerator", "accelerator_count", "placement", "peak_flops", "memory_bandwidth",
        ),
        "tasks": ("task_id", "model"),
    }  # fmt: skip
    runs, clusters, tasks = (read_table(folder / f"{name}.parquet", columns) for name, columns in needs.items())
    return runs, clusters, tasks


def elastic_jobs(folder: Path) -> tuple[ScaledRuns, Floats]:
    """ElasticFlow's table: eight accelerators a node."""
    needs = ("model", "gpu", "num_gpus", "global_batch_size", "iterations_per_s")
    table = read_table(folder / "throughputs.csv", needs).dropna()
    count = table["num_gpus"].to_numpy(float)
    model, device = (table[name].to_numpy(str) for name in ("model", "gpu"))
    runs = ScaledRuns(model, device, table["global_batch_size"].to_numpy(float), count, count > 8)
    return runs, 1 / table["iterations_per_s"].to_numpy(float)


def placed_jobs(folder: Path) -> tuple[ScaledRuns, Floats]:
    """Gavel's table: jobs that run on several accelerators, in one node or spread; a step there is of one of them."""
    runs, clusters, tasks = gavel_tables(folder)
    table = runs.merge(clusters, on="cluster_id").merge(tasks[["task_id", "model"]], on="task_id")
    table = table[(table["status"].astype(str) == "succeeded") & table["step_time_s"].notna()]
    job = table["model"].astype(str) + table["accelerator"].astype(str)
    table = table[(table.groupby(job)["accelerator_count"].transform("nunique") > 1).to_numpy()]
    count = table["accelerator_count"].to_numpy(float)
    found = ScaledRuns(
        table["model"].to_numpy(str), table["accelerator"].to_numpy(str), table["batch_size"].to_numpy(float) * count,
        count, table["placement"].to_numpy(str) == "unconsolidated",
    )  # fmt: skip
    return found, table["step_time_s"].to_numpy(float) * count


def column_e(name: str, runs: ScaledRuns, seconds: Floats, draws: int) -> list[Part]:
    """Configurations left out at random; then the largest number of accelerators of each job."""
    y = np.log(seconds)
    fold = np.stack([np.random.default_rng(seed).permutation(len(y)) % FOLDS for seed in range(draws)])
    names, job = np.unique(runs.job, return_inverse=True)
    counts = [runs.accelerators[job == j] for j in range(len(names))]
    largest, least = (np.array([of(own) for own in counts])[job] for of in (np.max, np.min))
    smaller = least < largest
    beyond = np.where(smaller & (runs.accelerators == largest), job, -1)[None]
    spread = np.where(runs.spread, job, -1)[None]
    parts = []
    for column, title, held in (
        ("configuration", "unseen configuration", fold), ("count", "largest count unseen", beyond),
        ("placement", "never seen spread", spread),
    ):  # fmt: skip
        found, cost = _held_out(f"E {name}, {column}", runs, y, held)
        rows = np.flatnonzero((held >= 0).any(axis=0))
        if column != "configuration":
            found[HINDSIGHT] = best_regressions(runs, y, held[0] >= 0)[None]
        found = {k: v[:, rows] for k, v in found.items()}
        nothing, one = np.zeros(len(rows)), np.zeros(len(rows), np.int64)
        heading = (f"E {name} {column}", f"{name}: {title}")
        parts.append(Part(*heading, y[rows], nothing, one, runs.job[rows], (SCALED,), found, cost))
    return parts


def _held_out(
    what: str, runs: ScaledRuns, y: Floats, held: Ints
) -> tuple[dict[str, Floats], dict[str, tuple[float, float]]]:
    """(S, n) by row; `held` (S, n) numbers what is left out together, -1 what never is."""
    found: dict[str, Floats] = {}
    taken: dict[str, list[float]] = {}
    jobs = [(s, k) for s in range(len(held)) for k in np.unique(held[s][held[s] >= 0])]
    with progress(what, len(jobs)) as advance:
        for s, k in jobs:
            out = held[s] == k
            for name, learner in _elastic_rows().items():
                begin = time.process_time()
                values = learner(runs.take(~out), y[~out], runs.take(out))
                taken.setdefault(name, []).append(time.process_time() - begin)
                found.setdefault(name, np.full(held.shape, np.nan))[s, out] = values
            advance()
    return found, {name: (float(np.median(t)), float(np.median(t)) * 1000 / len(y)) for name, t in taken.items()}


def _elastic_rows() -> dict[str, Callable[[ScaledRuns, Floats, ScaledRuns], Floats]]:
    def flat(name: str) -> Callable[[ScaledRuns, Floats, ScaledRuns], Floats]:
        def learner(known: ScaledRuns, y: Floats, asked: ScaledRuns) -> Floats:
            base = _one_accelerator(known, y, known), _one_accelerator(known, y, asked)
            return METADATA[name](_columns(known, base[0]), y, _columns(asked, base[1]))

        return learner

    def process(known: ScaledRuns, y: Floats, asked: ScaledRuns) -> Floats:
        parts = []
        for runs in (known, asked):
            work = np.column_stack([np.exp(_one_accelerator(known, y, runs)), runs.batch])
            parts.append(Allocations(work, np.column_stack([runs.accelerators, 1.0 + runs.spread])))
        return np.log(AllocatedTimes.fit(parts[0], np.exp(y)).predict(parts[1]))

    def alone(known: ScaledRuns, y: Floats, asked: ScaledRuns) -> Floats:
        found = np.full(len(asked), np.nan)
        for job in np.unique(asked.job):
            own, at = known.job == job, asked.job == job
            if own.any():
                found[at] = np.log(ScalingFit.fit(known.take(own), np.exp(y[own])).predict(asked.take(at)))
        return found

    def pooled(known: ScaledRuns, y: Floats, asked: ScaledRuns) -> Floats:
        at, found = np.isin(asked.job, known.job), np.full(len(asked), np.nan)
        found[at] = np.log(ScalingFit.fit(known, np.exp(y)).predict(asked.take(at)))
        return found

    def scaled(known: ScaledRuns, y: Floats, asked: ScaledRuns) -> Floats:
        at, found = np.isin(asked.job, known.job), np.full(len(asked), np.nan)
        found[at] = np.log(ScaledTimes.fit(known, np.exp(y)).predict(asked.take(at))[0])
        return found

    rows = {name: flat(name) for name in (CART, NEAREST, BOOSTED)}
    return rows | {PROCESS: process, OWN_FIT: alone, FIT: pooled, SCALED: scaled}


def _one_accelerator(known: ScaledRuns, y: Floats, asked: ScaledRuns) -> Floats:
    """(n,) log seconds times accelerators of the job's least configuration that is known: what a task costs alone."""
    names: Texts = known.job
    level = {}
    for job in np.unique(names):
        own = np.flatnonzero(names == job)
        least = own[known.accelerators[own].argmin()]
        level[job] = y[least] + np.log(known.accelerators[least])
    middle = float(np.mean(list(level.values())))
    return np.array([level.get(job, middle) for job in asked.job])


def _columns(runs: ScaledRuns, alone: Floats) -> Floats:
    share = np.log(runs.batch / runs.accelerators)
    return np.column_stack([alone, np.log(runs.accelerators), np.log(runs.batch), share, runs.spread])


COUNTED, FITTED = "everything kept once", "fitted factors of a graph's parts"


@dataclass(frozen=True)
class Profile:
    """Training runs of a profile: what was trained, bytes at the peak and of the limit, which failed, families, on
    which GPU."""

    graphs: OperatorGraphs
    runs: TrainingRuns
    peak: Floats
    limit: Floats
    failed: Bools
    families: Texts
    gpu: str | None

    @property
    def limited(self) -> Bools:
        """(n,) runs with less than the machine's own memory."""
        return self.limit < self.limit.max()


def read_profile(folder: Path) -> Profile:
    """Runs in single precision that ended well or for want of memory."""
    tables, graphs = read_graphs(folder)
    rows = tables["runs"].merge(tables["tasks"], on="task_id", suffixes=("", "_task"))
    rows = rows.merge(tables["clusters"][["cluster_id", "memory_bytes"]], on="cluster_id")
    rows = rows[rows["status"].isin(["succeeded", "oom"]) & rows["graph_id"].isin(graphs.graph_id)]
    rows = rows[rows["precision"].astype(str) == "fp32"]
    states = rows["optimizer"].astype(str).map(OPTIMIZER_STATES).to_numpy(float)
    runs = TrainingRuns(graphs.positions(rows["graph_id"].to_numpy(str)), rows["batch_size"].to_numpy(float), states)
    peak, limit = (rows[name].to_numpy(float, na_value=np.nan) for name in ("peak_memory_bytes", "memory_bytes"))
    named = tables["clusters"].dropna(subset=["driver"])["accelerator"].unique()  # only GPUs have a driver
    if len(named) > 1:
        raise DataError(f"{folder}: expected runs of one device, got {', '.join(named)}; give each a folder of its own")
    failed, families = (rows["status"] == "oom").to_numpy(), rows["family"].to_numpy(str)
    return Profile(graphs, runs, peak, limit, failed, families, named[0] if len(named) else None)


def column_m(folder: Path, draws: int) -> tuple[Part, dict[str, Any]]:
    """Peak memory of unseen families; by row how many limited runs failed, were foreseen, and falsely so."""
    p = read_profile(folder)
    free, limited, n = ~p.limited & ~p.failed, p.limited, len(p.runs)
    found: dict[str, Floats] = {name: np.full((draws, n), np.nan) for name in (BOOSTED, COUNTED, FITTED)}
    risk = {name: np.full((draws, n), np.nan) for name in found}
    for s in range(draws):
        fold = training_folds(p.families, np.ones((1, n), bool), FOLDS, (s,))[0]
        for f in range(FOLDS):
            for name, values in _peaks(p, free & (fold != f), fold == f).items():
                found[name][s, fold == f] = values
        for name in found:
            peaks = np.exp(found[name][s])
            for f in range(FOLDS):
                known, asked = limited & (fold != f), limited & (fold == f)
                told = MemoryRisk.fit(peaks[known], p.limit[known], p.failed[known])
                risk[name][s, asked] = told.risk(peaks[asked], p.limit[asked])
    at = np.flatnonzero(free)
    nothing, one = np.zeros(len(at)), np.zeros(len(at), np.int64)
    rows = {name: values[:, at] for name, values in found.items()}
    column, device = ("M", "a CPU") if p.gpu is None else ("M GPU", p.gpu)
    title = f"peak memory of a training step on {device}, unseen family"
    part = Part(column, title, np.log(p.peak[at]), nothing, one, p.families[at], (FITTED,), rows)
    said = {
        name: {
            "runs": int(limited.sum()),
            "failed": int(p.failed[limited].sum()),
            "foreseen": float((values[:, limited & p.failed] > 0.5).mean()),
            "false": float((values[:, limited & ~p.failed] > 0.5).mean()),
        }
        for name, values in risk.items()
    }
    return part, said


def _peaks(p: Profile, train: Bools, test: Bools) -> dict[str, Floats]:
    """(n,) log bytes of the runs of a fold, by row."""
    fitted = PeakMemory.fit(p.graphs, p.runs.take(train), p.peak[train])
    plain = np.zeros_like(fitted.coefficients)
    # The base; no moment of the optimizer's own; weights and gradients; nothing twice.
    plain[0], plain[1:3], plain[3], plain[-1] = fitted.coefficients[0], -np.inf, np.log(2), -np.inf
    X = np.column_stack([totals(p.graphs)[p.runs.graph], np.log(p.runs.batch), p.runs.states])
    return {
        FITTED: np.log(fitted.predict(p.graphs, p.runs.take(test))),
        COUNTED: np.log(PeakMemory(plain).predict(p.graphs, p.runs.take(test))),
        BOOSTED: boosted(X[train], np.log(p.peak[train]), X[test]),
    }
