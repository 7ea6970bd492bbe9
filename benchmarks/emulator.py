"""The emulator held against measured tables: step times of unseen models, rankings of clusters, memory, co-location.

    python benchmarks/emulator.py --timm DIR --gavel DIR       every table; a folder that is not given is skipped
    python benchmarks/emulator.py … --out DIR                  plots of measured against emulated, too
    python benchmarks/emulator.py … --profile DIR --write      fit src/mfcp/emulator/efficiencies.csv again

timm's tables have step times, graphs and batch sizes; gavel's have jobs of which the zoo builds three models. What is
judged was not fitted to: families left out in turn, models left out in turn. Hyper-parameters were chosen on folds of
seed 1000; the tables are of seeds 0 to 2.
"""

from __future__ import annotations

import argparse
import io
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks.figures import plot
from mfcp.arrays import Floats
from mfcp.data.emulator_calibration import Calibrated, StepLog, calibrate, fit_speedup, multipliers, step_logs
from mfcp.data.log.tables import Tables, read_tables
from mfcp.emulator import efficiency, step, zoo
from mfcp.emulator.architectures import FAMILIES
from mfcp.emulator.efficiency import Efficiency
from mfcp.emulator.platform import emulate
from mfcp.emulator.settings import EmulatorSettings
from mfcp.progress import progress

SEEDS = (0, 1, 2)
SHIPPED = Path(efficiency.__file__).with_name("efficiencies.csv")
# What gavel's jobs train, as the zoo builds it. Its ResNet-18 for 32 pixels does without the strides of the stem, which
# gives the feature maps that the zoo's has at 128 pixels (1.18 against 1.11 GFLOP); Transformer: Marian's sizes.
GAVEL = {"resnet-18": ("resnet", "18", 128), "resnet-50": ("resnet", "50", 224), "transformer": ("marian", "base", 32)}


def show(title: str, columns: list[str], rows: list[tuple[Any, ...]]) -> None:
    table = Table(title=title, title_justify="left")
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i == 0 else "right")
    for row in rows:
        table.add_row(*(f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in row))
    Console(width=140).print(table)


def of_steps(name: str, logs: list[StepLog], out: Path | None) -> None:
    """Errors of step times of families that the efficiencies were not fitted to."""
    rows, means = [], []
    with progress("emulator: fits", len(logs) * len(SEEDS)) as advance:
        for log in logs:
            found: list[Calibrated] = []
            for seed in SEEDS:
                found.append(calibrate(log, seed=seed))
                advance()
            mape, r2 = (float(np.mean([getattr(one, name) for one in found])) for name in ("mape", "r2"))
            rows.append((log.cluster_id, log.phase, len(log.seconds), 100 * mape, r2, tau_of_tasks(found)))
            means.append((log.phase, 100 * mape, r2))
            if out is not None:
                plot(out / f"{log.cluster_id}.png", lambda axes, one=found[0]: scatter(axes, one))
    for phase in ("infer", "train"):
        own = [m[1:] for m in means if m[0] == phase]
        if own:
            rows.append((f"mean of {phase}", phase, "", *np.mean(own, axis=0).tolist(), ""))
    title = f"{name}: families unseen, five folds, seeds 0-2"
    show(title, ["cluster", "phase", "tasks", "MAPE %", "log R²", "tau"], rows)


def tau_of_tasks(found: list[Calibrated]) -> float:
    """Kendall's tau between measured and emulated times of a cluster's tasks."""
    from scipy.stats import kendalltau

    return float(np.mean([kendalltau(one.log.seconds, one.unseen)[0] for one in found]))


def scatter(axes: Any, one: Calibrated) -> None:
    axes.loglog(one.log.seconds, one.unseen, ".", markersize=3)
    low, high = one.log.seconds.min(), one.log.seconds.max()
    axes.plot([low, high], [low, high], color="black", linewidth=0.7)
    axes.set(xlabel="measured seconds of a step", ylabel="emulated, family unseen")
    axes.set_title(f"{one.log.cluster_id}: MAPE {100 * one.mape:.1f} %, log R² {one.r2:.3f}", fontsize=9)


def of_memory(tables: Tables) -> None:
    """Training batches that timm's benchmark reached on 24 GiB, against the emulated footprint.

    The benchmark starts at a batch and goes down a ladder until a step runs; so the batch fits and the next one up does
    not. The emulated footprint is right where it says the same.
    """
    ladder = np.array([512, 384, 256, 192, 128, 96, 64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1])
    nodes = tables["nodes"].groupby("graph_id")[["bytes_written", "param_count"]].sum()
    clusters = tables["clusters"].set_index("cluster_id")
    tasks = tables["tasks"].set_index("task_id")
    rows = []
    for name, runs in tables["runs"].groupby("cluster_id"):
        runs = runs[(runs["status"] == "succeeded") & runs["batch_size"].isin(ladder[1:])]
        graph = tasks.loc[runs["task_id"], "graph_id"].to_numpy(object)
        runs = runs[pd.notna(graph) & (tasks.loc[runs["task_id"], "phase"] == "train").to_numpy()]
        if runs.empty:
            continue
        own = nodes.reindex(tasks.loc[runs["task_id"], "graph_id"]).to_numpy(np.float64)
        batch = runs["batch_size"].to_numpy(np.float64)
        above = ladder[np.searchsorted(-ladder, -batch) - 1].astype(np.float64)
        memory = float(clusters.loc[name, "memory_bytes"])
        here, there = (step.training_bytes(own[:, 1], np.float64(4), own[:, 0], b, True) for b in (batch, above))
        # The share of activations with which the memory would be full halfway between the two batches.
        fixed = here - batch * step.KEPT_ACTIVATIONS * own[:, 0] / 2
        implied = (memory - fixed) / (np.sqrt(batch * above) * own[:, 0] / 2)
        rows.append(
            (name, len(runs), float(np.median(implied)), *np.quantile(implied, [0.25, 0.75]).tolist(),
             100 * float(np.mean(here <= memory)), 100 * float(np.mean(there > memory)))
        )  # fmt: skip
    show(
        f"memory: kept activations (shipped: {step.KEPT_ACTIVATIONS}), and batches told right",
        ["cluster", "models", "median", "25 %", "75 %", "fits %", "next fails %"],
        rows,
    )


def gavel_tables(folder: Path) -> Tables:
    """gavel's tables with the graphs of the jobs that the zoo builds."""
    families = {family.name: family for family in FAMILIES}
    variants = {
        job: zoo.Variant(replace(families[family], shapes={side: {}}), size, side)
        for job, (family, size, side) in GAVEL.items()
    }
    nodes, edges = zoo.capture_all(variants.values(), classes={**zoo.CLASSES, 128: 10})
    tables = dict(read_tables(folder))
    graph = tables["tasks"]["model"].map({job: variant.graph_id for job, variant in variants.items()})
    tables["tasks"] = tables["tasks"].assign(graph_id=graph, family=tables["tasks"]["model"], optimizer="sgd")
    return tables | {"nodes": nodes, "edges": edges}


def of_gavel(tables: Tables) -> None:
    """Ranking of clusters per job, each cluster calibrated by three numbers on jobs that are not judged.

    They are a factor on emulated work, seconds a step that no operator explains (a data loader), and seconds per byte
    of gradient where there are several accelerators, each at least 0.
    """
    from scipy.optimize import nnls
    from scipy.stats import kendalltau

    logs = step_logs(tables)
    graph = tables["tasks"].set_index("task_id")["graph_id"]
    params = tables["nodes"].groupby("graph_id")["param_count"].sum()
    count = tables["clusters"].set_index("cluster_id")["accelerator_count"]
    shipped = efficiency.defaults()["vector"]
    work = replace(shipped, launch_s=np.full_like(shipped.launch_s, 1e-12), loop_s=1e-12)
    jobs = sorted({job for log in logs for job in log.task_id})
    rows = []
    for title, group in (("model", lambda job: job.split("/")[1]), ("batch size", lambda job: job)):
        measured, emulated = (pd.DataFrame(np.nan, jobs, [log.cluster_id for log in logs]) for _ in range(2))
        for log in logs:
            gradients = 4 * params[graph[log.task_id]].to_numpy(np.float64) * (count[log.cluster_id] > 1)
            columns = np.column_stack([work.seconds(log.parts), np.ones(len(log.seconds)), gradients / 1e9])
            part = np.array([group(job) for job in log.task_id])
            measured.loc[log.task_id, log.cluster_id] = log.seconds
            for name in np.unique(part):
                train = part != name
                factors = nnls(columns[train] / log.seconds[train, None], np.ones(train.sum()))[0]
                emulated.loc[log.task_id[~train], log.cluster_id] = columns[~train] @ factors
        error = (emulated / measured - 1).abs().stack().mean()
        for name, chosen in (("1 accelerator", [c for c in measured if count[c] == 1]), ("all", list(measured))):
            tau = [
                kendalltau(*(t.loc[job, chosen][measured.loc[job, chosen].notna()] for t in (measured, emulated)))[0]
                for job in jobs
            ]
            rows.append(
                (f"{title} unseen", name, len(chosen), len(jobs), float(np.mean(tau)), float(np.min(tau)), 100 * error)
            )
    show(
        "gavel: ranking of clusters per job after calibration",
        ["left out", "clusters", "of them", "jobs", "Kendall's tau", "least", "MAPE % (all)"],
        rows,
    )


def of_pairs(tables: Tables) -> None:
    """zeta(2) of every cluster, and the emulated spread of pairs."""
    pairs = tables["colocation"]
    found = multipliers(pairs)
    names, curve = fit_speedup(pairs)
    zeta = curve.table(len(names), 4)
    # Half of the pairs, by the first task, say zeta for the other half.
    first = pairs["task_a"].isin(sorted(tables["tasks"]["task_id"])[::2])
    seen = multipliers(pairs[first]).map(np.log).groupby(level=0).median().map(np.exp)
    error = (seen / multipliers(pairs[~first]) - 1).abs().groupby(level=0).mean()
    rows = [
        (name, len(found[name]), zeta[i, 2], zeta[i, 4], float(np.log(found[name]).std()), 100 * float(error[name]))
        for i, name in enumerate(names)
    ]
    show(
        "co-location: zeta from pairs; the error is of pairs of other tasks",
        ["cluster", "pairs", "zeta(2)", "zeta(4), by the curve", "spread of log", "MAPE %"],
        rows,
    )


def interaction(seconds: pd.DataFrame) -> float:
    """Share of the variance of log time that is left after effects of tasks and clusters; complete rows only."""
    log = np.log(seconds.dropna().to_numpy(np.float64))
    left = log - log.mean(axis=0) - log.mean(axis=1, keepdims=True) + log.mean()
    return float(left.var() / log.var())


def of_platform(gavel: Tables | None) -> None:
    """Character and speed of the default platform: 300 tasks, 12 clusters, ten runs a pair."""
    rows = []
    if gavel is not None:
        runs = gavel["runs"][gavel["runs"]["status"] == "succeeded"]
        for name, keep in (("gavel, 1 accelerator", "x1$"), ("gavel, all clusters", "")):
            own = runs[runs["cluster_id"].str.contains(keep)]
            times = own.pivot_table(index="task_id", columns="cluster_id", values="step_time_s")
            rows.append((name, *times.dropna().shape, 100 * interaction(times)))
    settings, taken = EmulatorSettings(runs=(10, 10), missing=0.0), []
    with progress("emulator: capture of the zoo"):
        graphs = zoo.capture_all(zoo.variants())
    for seed in SEEDS:
        start = time.process_time()
        tables = emulate(settings, seed, graphs=graphs)
        taken.append(time.process_time() - start)
        times = tables["truth"].pivot(index="task_id", columns="cluster_id", values="duration_s")
        rows.append((f"emulated, seed {seed}", *times.dropna().shape, 100 * interaction(times)))
    show("interaction: variance of log time after task and cluster effects", ["log", "tasks", "clusters", "%"], rows)
    size = f"{len(tables['runs'])} runs of {len(tables['tasks'])} tasks"
    print(f"{size} emulated in {np.median(taken):.1f} CPU s after capture")


def of_input_pipeline() -> None:
    """Core seconds that one image or token takes on its way into a batch, on this machine."""
    from PIL import Image

    rng = np.random.default_rng(0)
    coarse = Image.fromarray(rng.integers(0, 256, (94, 125, 3)).astype(np.uint8))
    file = io.BytesIO()
    coarse.resize((500, 375), Image.Resampling.BICUBIC).save(file, "JPEG", quality=95)
    small, text = rng.integers(0, 256, (40, 40, 3)).astype(np.uint8), rng.integers(0, 32000, 10**6)

    def normalised(image: NDArray[np.uint8]) -> Floats:
        return np.ascontiguousarray(((image[:, ::-1] / np.float32(255) - 0.45) / 0.225).transpose(2, 0, 1))

    def imagenet() -> Floats:
        x, y = rng.integers(0, 100, 2)
        image = Image.open(file).convert("RGB")
        return normalised(np.asarray(image.resize((224, 224), Image.Resampling.BILINEAR, box=(x, y, x + 350, y + 270))))

    def cifar() -> Floats:
        x, y = rng.integers(0, 9, 2)
        return normalised(small[y : y + 32, x : x + 32])

    def tokens() -> Any:
        at = rng.integers(0, len(text) - 128)
        return text[at : at + 128].astype(np.int64)

    rows = []
    for name, make, count, shipped, unit in (
        ("JPEG of 500 x 375, cropped to 224", imagenet, 100, step.DECODE_S[224], 1),
        ("image of 32 pixels", cifar, 2000, step.DECODE_S[32], 1),
        ("token of a tokenised text", tokens, 20000, step.TOKEN_S, 128),
    ):
        taken = []
        for _ in range(5):
            start = time.process_time()
            for k in range(0, count, 50):
                np.stack([make() for _ in range(min(50, count - k))])
            taken.append((time.process_time() - start) / count / unit)
        rows.append((name, f"{np.median(taken):.2g}", f"{shipped:.2g}"))
    show("input pipeline, core seconds", ["what", "here, median of five", "shipped"], rows)


def write(timm: list[StepLog], gavel: list[StepLog] | None, profile: list[StepLog] | None) -> None:
    """Fit the shipped efficiencies: of training steps, by kind of hardware."""
    training = next(log for log in timm if log.cluster_id == "rtx3090_pt112_nchw_train")
    found = {"tensor": training.fit()}
    sources = {"tensor": "timm: RTX 3090, training with AMP, PyTorch 1.12, NCHW"}
    if gavel is not None:
        # Fourteen jobs of three models: close to the classes' proportions above, launches of that time's hosts.
        for name, members in (("vector", ("gavel/p100x1", "gavel/v100x1")), ("K80", ("gavel/k80x1",))):
            logs = [log for log in gavel if log.cluster_id in members]
            parts, seconds = (np.concatenate([getattr(log, field) for log in logs]) for field in ("parts", "seconds"))
            fitted = Efficiency.fit(parts, seconds, found["tensor"], work_sd=0.3, launch_sd=0.3)
            # What those jobs' loops cost is of their data loaders, which the emulator has apart.
            found[name] = replace(fitted, loop_s=found["tensor"].loop_s)
            sources[name] = f"gavel: {', '.join(members)}, training in FP32"
    if profile is not None:
        parts, seconds = (np.concatenate([getattr(log, field) for log in profile]) for field in ("parts", "seconds"))
        found["cpu"] = Efficiency.fit(parts, seconds, profile[0].start, work_sd=0.5, launch_sd=0.5)
        sources["cpu"] = "data/measured: training in FP32"
    kept = efficiency.load(SHIPPED) if SHIPPED.exists() else {}
    for name in set(kept) - set(found):
        raise SystemExit(
            f"{SHIPPED.name} has '{name}', which these logs do not: give all of --timm, --gavel, --profile"
        )
    efficiency.save(found, SHIPPED, sources)
    print(f"wrote {SHIPPED}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--timm", type=Path, metavar="DIR", help="step times with graphs and batch sizes")
    parser.add_argument("--gavel", type=Path, metavar="DIR", help="jobs on K80, P100 and V100, alone and in pairs")
    parser.add_argument("--profile", type=Path, metavar="DIR", help="training steps measured by `mfcp profile`")
    parser.add_argument("--write", action="store_true", help="fit the shipped efficiencies again")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for plots")
    arguments = parser.parse_args()
    timm = read_tables(arguments.timm) if arguments.timm else None
    gavel = gavel_tables(arguments.gavel) if arguments.gavel else None
    profile = read_tables(arguments.profile) if arguments.profile else None
    logs = step_logs(timm) if timm is not None else []
    if arguments.write:
        write(
            logs, step_logs(gavel) if gavel is not None else None, step_logs(profile) if profile is not None else None
        )
        return
    if timm is not None:
        of_steps("timm", logs, arguments.out)
        of_memory(timm)
    else:
        print("skipped: step times of timm; give a folder with --timm")
    if profile is not None:
        of_steps("profile", step_logs(profile), arguments.out)
    if gavel is not None:
        of_gavel(gavel)
        of_pairs(gavel)
    else:
        print("skipped: gavel's jobs; give a folder with --gavel")
    of_platform(gavel)
    of_input_pipeline()


if __name__ == "__main__":
    main()
