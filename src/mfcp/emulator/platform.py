"""An emulated exchange platform: draws a history of training tasks and writes its raw logs.

The tables have the schema of real logs; one more, `truth`, holds what no platform knows (expected
duration of a successful run and success probability of every pair that fits) and serves evaluation only.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from mfcp.arrays import Floats, Ints
from mfcp.emulator import efficiency, hardware, step, zoo
from mfcp.emulator.architectures import STATE_BYTES
from mfcp.emulator.colocation import draw_pairs
from mfcp.emulator.failures import Outcomes, draw_outages, memory_risk, until_outage
from mfcp.emulator.measured import Measured
from mfcp.emulator.settings import EmulatorSettings
from mfcp.errors import SettingsError
from mfcp.tasks.graphs.operator_graphs import build_graphs

START = pd.Timestamp("2026-01-05")
LEAST_CLUSTERS = 4
_DATASETS = {32: "cifar10", 224: "imagenet"}
_EXAMPLES = {"cifar10": 50_000, "imagenet": 1_281_167, "europarl": 1_920_209}  # europarl: German-English, release 7
_HISTORY, _RUNS, _OUTAGES, _PAIRS = 1, 2, 3, 4  # streams of the seed
_DIFFICULTY = 0.9  # log-normal spread of how prone tasks are to fail on their own, an assumption
_HOUR, _DAY = 3600.0, 86400.0
_TENS = np.array([float(f"1e{power}") for power in range(300)])


def emulate(
    settings: EmulatorSettings,
    seed: int,
    *,
    measured: Measured | None = None,
    calibrated: dict[str, efficiency.Efficiency] | None = None,
    graphs: tuple[pd.DataFrame, pd.DataFrame] | None = None,
) -> dict[str, pd.DataFrame]:
    """The raw logs of an emulated platform: tasks, clusters, runs, nodes, edges, colocation and truth.

    The same arguments give the same tables.

    Args:
        settings: the platform and its history.
        seed: of everything drawn.
        measured: machines that join with their measured step times.
        calibrated: efficiencies of accelerators by name, in place of those of their kind of hardware.
        graphs: nodes and edges of `drawn_variants`, where they have been captured already.

    Raises:
        SettingsError: unknown family, cluster or accelerator, or runs in the wrong order.
        DataError: measured tables that lack what is needed of them.
    """
    if not 1 <= settings.runs[0] <= settings.runs[1]:
        raise SettingsError(f"emulator.runs: expected 1 <= least <= most, got {list(settings.runs)}")
    platform = hardware.clusters(settings.clusters)
    rng = np.random.default_rng([seed, _HISTORY])
    chosen = _variants(settings, rng)
    captured = {variant.graph_id: variant for variant in chosen}
    machines = measured.of(captured) if measured is not None else None
    _check_names(settings, platform, calibrated or {}, machines.names if machines is not None else [])
    nodes, edges = graphs or zoo.capture_all(captured.values())
    tasks = _tasks(settings, chosen, nodes, rng)
    workload = step.Workload.of(tasks, build_graphs(nodes, edges))
    steps = step.training_steps(tasks, workload, platform, efficiency.defaults() | (calibrated or {}))
    if machines is not None:
        platform, steps = machines.join(tasks, platform, steps)
    outcomes = _outcomes(settings, tasks, steps, platform, rng)
    runs = _runs(settings, tasks, platform, steps.seconds, outcomes, seed)
    pairs = draw_pairs(tasks, platform, steps, settings.pairs, np.random.default_rng([seed, _PAIRS]))
    final = outcomes.changed(*_drifted(settings, platform, np.full(len(platform), settings.days * _DAY)))
    return {
        "tasks": tasks.drop(columns="state_bytes"),
        "clusters": _cluster_table(platform),
        "runs": _rounded(runs),
        "nodes": nodes,
        "edges": edges,
        "colocation": _rounded(pairs),
        "truth": _rounded(_truth(tasks, platform, final)),
    }


def _rounded(table: pd.DataFrame) -> pd.DataFrame:
    """Floats at seven significant digits: logarithms and exponentials differ by processor in their last bits."""
    values = table.select_dtypes(np.float64)
    x = values.to_numpy()
    with np.errstate(divide="ignore"):
        size = np.log10(np.abs(x))
    decimals = 6 - np.floor(np.where(np.isfinite(size), size, 0.0)).astype(np.int64)
    up, down = _TENS[np.clip(decimals, 0, 299)], _TENS[np.clip(-decimals, 0, 299)]
    return table.assign(**pd.DataFrame(np.rint(x * up / down) / up * down, values.index, values.columns))


def drawn_variants(settings: EmulatorSettings, seed: int) -> list[zoo.Variant]:
    """The model of each task of `emulate`, in the order of its tasks table."""
    return _variants(settings, np.random.default_rng([seed, _HISTORY]))


def _variants(settings: EmulatorSettings, rng: np.random.Generator) -> list[zoo.Variant]:
    """One variant per task; every variant once before any comes again."""
    known = zoo.variants(settings.families)
    rounds = -(-settings.tasks // len(known))
    order = np.concatenate([rng.permutation(len(known)) for _ in range(rounds)])[: settings.tasks]
    return [known[i] for i in order]


def _tasks(
    settings: EmulatorSettings, chosen: list[zoo.Variant], nodes: pd.DataFrame, rng: np.random.Generator
) -> pd.DataFrame:
    """Tasks with batch sizes that suit common accelerators and shorter training for heavier models."""
    n = len(chosen)
    columns = ["flops", "param_count", "activations", "bytes_written"]
    totals = nodes.assign(activations=zoo.activations(nodes)).groupby("graph_id")[columns].sum()
    totals = totals.loc[[variant.graph_id for variant in chosen]]
    flops, written = totals["flops"].to_numpy(np.float64), totals["bytes_written"].to_numpy(np.float64)
    is_cv = np.array([variant.family.domain == "cv" for variant in chosen])
    most = np.minimum(np.where(is_cv, 1024, 256), 160e9 / written)
    batch = 2 ** np.clip(np.floor(np.log2(most)) - rng.integers(0, 5, n), 3, 10).astype(np.int64)
    precision = rng.choice(hardware.PRECISIONS, n, p=[0.4, 0.35, 0.25])
    # Users spend a budget: tenfold FLOPs per sample go with about a fifth of the samples.
    samples = settings.work * 8.0e6 * (flops / 1e9) ** -0.7 * np.exp(0.6 * rng.standard_normal(n))
    samples = np.maximum(np.round(samples / batch), 20) * batch
    shape = [variant.shape for variant in chosen]
    optimizer = [variant.family.optimizer for variant in chosen]
    dataset = [_DATASETS[v.shape] if v.family.domain == "cv" else "europarl" for v in chosen]
    return pd.DataFrame(
        {
            "task_id": [
                f"{v.graph_id}/b{b}/{p}/{i:03d}"
                for i, (v, b, p) in enumerate(zip(chosen, batch, precision, strict=True))
            ],
            "domain": [variant.family.domain for variant in chosen],
            "model": [variant.model for variant in chosen],
            "batch_size": batch,
            "input_size": np.array(shape, np.int64),
            "precision": precision,
            "phase": "train",
            "param_count": totals["param_count"].to_numpy(np.int64),
            "flops": flops,
            "activations": totals["activations"].to_numpy(np.float64),
            "graph_id": [variant.graph_id for variant in chosen],
            "samples": samples,
            "family": [variant.family.name for variant in chosen],
            "dataset": dataset,
            "epochs": samples / [_EXAMPLES[name] for name in dataset],
            "optimizer": optimizer,
            "state_bytes": [STATE_BYTES[name] for name in optimizer],
        }
    )


def _check_names(
    settings: EmulatorSettings,
    platform: pd.DataFrame,
    calibrated: dict[str, efficiency.Efficiency],
    machines: list[str],
) -> None:
    """Raise for a drift of a cluster that is nowhere, or a calibration of no emulated cluster: it would do nothing."""
    names = [*platform["cluster_id"], *machines]
    unknown = [change.cluster for change in settings.drift if change.cluster not in names]
    if unknown:
        raise SettingsError(f"drift: unknown cluster '{unknown[0]}'; the platform has {', '.join(names)}")
    accelerators = set(platform["accelerator"])
    if calibrated and not set(calibrated) & accelerators:
        raise SettingsError(
            f"calibration: its accelerators ({', '.join(calibrated)}) are none of the platform's "
            f"({', '.join(sorted(accelerators))}); name them alike"
        )


def _drifted(
    settings: EmulatorSettings,
    platform: pd.DataFrame,
    moment: Floats,
    cluster: Ints | None = None,
) -> tuple[Floats, Floats]:
    """Factors on step times and hazards at each moment (seconds) of its cluster, by default of all in turn."""
    at = np.arange(len(platform)) if cluster is None else cluster
    slowdown, hazard = np.ones(len(at)), np.ones(len(at))
    names = platform["cluster_id"].to_numpy(str)
    for change in settings.drift:
        now = (names[at] == change.cluster) & (moment >= change.day * _DAY)
        slowdown = np.where(now, slowdown * change.slowdown, slowdown)
        hazard = np.where(now, hazard * change.hazard, hazard)
    return slowdown, hazard


def _outcomes(
    settings: EmulatorSettings, tasks: pd.DataFrame, steps: step.Steps, platform: pd.DataFrame, rng: np.random.Generator
) -> Outcomes:
    """Durations and failure causes of every pair; pools of a cluster share a task's samples."""
    column = {
        name: platform[name].to_numpy(np.float64) for name in platform.columns if platform[name].dtype.kind in "if"
    }
    rate = tasks["batch_size"].to_numpy(np.float64)[:, None] / steps.seconds * column["pool_size"]
    return Outcomes(
        duration=column["startup_s"] + tasks["samples"].to_numpy(np.float64)[:, None] / rate,
        startup=column["startup_s"],
        sigma=settings.noise * column["noise_sigma"],
        job_failure=np.minimum(settings.failures * column["job_failure"], 0.9),
        difficulty=np.exp(_DIFFICULTY * rng.standard_normal(len(tasks)) - _DIFFICULTY**2 / 2),
        memory=memory_risk(steps.footprint, column["memory_bytes"]),
        hazard=settings.hazard * column["hazard"] / _HOUR,
        outage_rate=settings.outages * column["outage_rate"] / _HOUR,
        outage_mean=column["outage_mean_hours"] * _HOUR,
        limit=column["time_limit_s"],
    )


def _outages(
    platform: pd.DataFrame,
    outcomes: Outcomes,
    length: float,
    cluster: Ints,
    moment: Floats,
    seed: int,
) -> Floats:
    """(R,) seconds from each run's start to the next outage of its owner, which all clusters of the owner share."""
    wait = np.full(len(cluster), np.inf)
    owners = platform["owner"].to_numpy(str)
    for k, owner in enumerate(sorted(set(owners))):
        own = np.flatnonzero(owners == owner)
        rng = np.random.default_rng([seed, _OUTAGES, k])
        starts, ends = draw_outages(outcomes.outage_rate[own[0]], outcomes.outage_mean[own[0]], length, rng)
        mine = np.isin(cluster, own)
        wait[mine] = until_outage(moment[mine], starts, ends)
    return wait


def _history(settings: EmulatorSettings, outcomes: Outcomes, rng: np.random.Generator) -> Ints:
    """How often each pair ran, (n, M): some pairs never, those out of memory only until users gave up."""
    fits, known = outcomes.fits, np.isfinite(outcomes.duration)
    counts = rng.integers(settings.runs[0], settings.runs[1] + 1, fits.shape)
    luck = rng.random(fits.shape)
    # Of the pairs that fit, each task keeps its luckiest few, so that every task can be matched.
    rank = np.argsort(np.argsort(np.where(fits, -luck, 1.0), axis=1), axis=1)
    ran = known & ((luck >= settings.missing) | (fits & (rank < LEAST_CLUSTERS)))
    return np.where(ran, np.where(fits, counts, np.minimum(counts, rng.integers(1, 4, fits.shape))), 0)


def _runs(
    settings: EmulatorSettings,
    tasks: pd.DataFrame,
    platform: pd.DataFrame,
    seconds: Floats,
    outcomes: Outcomes,
    seed: int,
) -> pd.DataFrame:
    rng = np.random.default_rng([seed, _RUNS])
    counts = _history(settings, outcomes, rng)
    task, cluster = (np.repeat(index, counts.ravel()) for index in np.indices(counts.shape).reshape(2, -1))
    first = np.cumsum(counts.ravel()) - counts.ravel()
    attempt = np.arange(len(task)) - np.repeat(first, counts.ravel()) + 1
    pair = np.repeat(np.arange(counts.size), counts.ravel())
    moment = rng.random(len(task))
    # Within a pair, attempts are in the order of time.
    moment = np.round(moment[np.lexsort((moment, pair))] * settings.days * _DAY)
    slowdown, hazard = _drifted(settings, platform, moment, cluster)
    wait = _outages(platform, outcomes, settings.days * _DAY, cluster, moment, seed)
    drawn = outcomes.draw(task, cluster, settings.cancelled, rng, until_outage=wait, slowdown=slowdown, risk=hazard)
    ran = ~((drawn["status"] == "oom") | (wait <= 0)).to_numpy()
    step_time = np.where(ran, seconds[task, cluster] * drawn["noise"].to_numpy(), np.nan)
    task_id, cluster_id = tasks["task_id"].to_numpy(str)[task], platform["cluster_id"].to_numpy(str)[cluster]
    table = pd.DataFrame(
        {
            "run_id": [f"{c}/{t}/{a}" for c, t, a in zip(cluster_id, task_id, attempt, strict=True)],
            "task_id": task_id,
            "cluster_id": cluster_id,
            "attempt": attempt,
            "batch_size": tasks["batch_size"].to_numpy()[task],
            "step_time_s": step_time,
            "samples_per_s": tasks["batch_size"].to_numpy()[task] / step_time,
            "duration_s": drawn["duration_s"].to_numpy(),
            "status": drawn["status"].to_numpy(str),
            "started_at": START + pd.to_timedelta(moment, unit="s"),
            "error": drawn["error"].where(drawn["error"] != "", None),
        }
    )
    return table.sort_values(["started_at", "run_id"], ignore_index=True)


def _cluster_table(platform: pd.DataFrame) -> pd.DataFrame:
    """The clusters as their owners publish them; what only the emulator knows stays out."""
    public = [
        *("cluster_id", "accelerator", "accelerator_count", "memory_bytes", "memory_bandwidth"),
        *("interconnect_bandwidth", "software", "pool_size", "owner"),
    ]
    table = platform[public].copy()
    table.insert(4, "peak_flops", platform["peak_fp16"].fillna(platform["peak_bf16"]).fillna(platform["peak_fp32"]))
    table["peak_flops_fp32"] = platform["peak_fp32"]
    table["origin"] = "emulated"
    return table


def _truth(tasks: pd.DataFrame, platform: pd.DataFrame, outcomes: Outcomes) -> pd.DataFrame:
    duration, reliability = outcomes.expected()
    known = reliability > 0
    task, cluster = np.nonzero(known)
    return pd.DataFrame(
        {
            "task_id": tasks["task_id"].to_numpy(str)[task],
            "cluster_id": platform["cluster_id"].to_numpy(str)[cluster],
            "duration_s": duration[known],
            "reliability": reliability[known],
        }
    )
