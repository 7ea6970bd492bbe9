"""Drift alarms judged on emulated platforms: how often they are false, and how many runs a change takes to be seen.

    python benchmarks/drift.py                     seeds 0 to 9, as reported
    python benchmarks/drift.py --seeds 1000 1010   the seeds on which the thresholds of MonitorSettings were chosen

Each platform runs 2,000 tasks on thirteen clusters in 42 days, each task once on a cluster drawn among those that it
fits. A prediction is the truth without the change, times in error by a factor exp(0.15 e) of its own for each task and
stated so, reliabilities by 0.03 e, with e standard normal: the errors are drawn, the detectors see what monitoring
would. In the middle one cluster changes. A false alarm is one on a platform without any change.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from mfcp.emulator import zoo
from mfcp.emulator.platform import START, drawn_variants, emulate
from mfcp.emulator.settings import Drift, EmulatorSettings
from mfcp.platform.releases.monitoring import MonitorSettings, alarms
from mfcp.progress import progress

BASE: dict[str, Any] = {"tasks": 2000, "families": ("resnet", "vit"), "runs": (1, 1), "missing": 0.0, "pairs": 0}
CHANGE_DAY, TIME_ERROR, RELIABILITY_ERROR = 21.0, 0.15, 0.03
EVERY = (
    *("north-k80x8", "north-p100x4", "harbour-v100x2", "harbour-t4x8", "atelier-2080tix4", "atelier-3090x4"),
    *("atelier-4090x2", "meridian-a10x4", "meridian-a100x2", "meridian-h200x1", "summit-mi250xx4", "aurora-h100x1"),
)
# Whose runs are interrupted often enough for a hazard to show; on the others they end before.
INTERRUPTED = ("atelier-2080tix4", "atelier-3090x4", "atelier-4090x2", "river-xeonx4")
CHANGES = {
    "times x 1.1": (EVERY, 1.1, 1.0),
    "times x 1.3": (EVERY, 1.3, 1.0),
    "times x 2": (EVERY, 2.0, 1.0),
    "times x 0.8": (EVERY, 0.8, 1.0),
    "hazard x 5": (INTERRUPTED, 1.0, 5.0),
    "hazard x 20": (INTERRUPTED, 1.0, 20.0),
}


def observed(tables: dict[str, pd.DataFrame], truth: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Rows as of `mfcp.platform.releases.monitoring.observations`, in order of time, and the day of each."""
    rng = np.random.default_rng([seed, 0xD41F7])
    fits = truth[truth["reliability"] > 0.5]
    chosen = (
        fits.iloc[rng.permutation(len(fits))].drop_duplicates("task_id").drop(columns=["duration_s", "reliability"])
    )
    error = pd.Series(rng.standard_normal(len(chosen)) * TIME_ERROR, chosen["task_id"].to_numpy())
    runs = tables["runs"].merge(chosen, on=["task_id", "cluster_id"])
    runs = runs[runs["status"] != "cancelled"].merge(truth, on=["task_id", "cluster_id"], suffixes=("", "_true"))
    success = (runs["status"] == "succeeded").to_numpy()
    predicted = runs["duration_s_true"] * np.exp(error[runs["task_id"]].to_numpy())
    guess = runs["reliability"] + RELIABILITY_ERROR * rng.standard_normal(len(runs))
    return runs.assign(
        z=((runs["duration_s"] / predicted).map(np.log) / TIME_ERROR).where(success),
        success=success.astype(float),
        reliability=guess.clip(0.02, 0.99),
        day=(runs["started_at"] - START).dt.total_seconds() / 86400,
    )[["run_id", "cluster_id", "z", "success", "reliability", "day"]]


def main(seeds: range) -> None:
    settings, begin = MonitorSettings(), time.process_time()
    platform = EmulatorSettings(**BASE)
    graphs = zoo.capture_all({v.graph_id: v for v in drawn_variants(platform, seeds.start)}.values())
    false: dict[str, int] = {"time": 0, "reliability": 0}
    runs, mix, tasks = 0, 0, 0
    delays: dict[str, list[float]] = {name: [] for name in CHANGES}
    others = 0
    with progress("drift", len(seeds)) as advance:
        for seed in seeds:
            calm = emulate(platform, seed, graphs=graphs)
            seen = observed(calm, calm["truth"], seed)
            found = alarms(seen, calm["tasks"], settings)
            for kind in false:
                false[kind] += sum(alarm.stream.startswith(kind) for alarm in found)
            mix += sum(alarm.stream.startswith("mix") for alarm in found)
            runs, tasks = runs + len(seen), tasks + len(calm["tasks"])
            for name, (names, slowdown, hazard) in CHANGES.items():
                cluster = names[seed % len(names)]
                change = Drift(cluster=cluster, day=CHANGE_DAY, slowdown=slowdown, hazard=hazard)
                drifted = emulate(EmulatorSettings(**BASE, drift=(change,)), seed, graphs=graphs)
                seen = observed(drifted, calm["truth"], seed)
                own = seen[(seen["cluster_id"] == cluster)].set_index("run_id")
                late = own[own["day"] >= CHANGE_DAY]
                kind = "time" if hazard == 1 else "reliability"
                named = [a for a in alarms(seen, calm["tasks"].head(0), settings) if a.stream == f"{kind} of {cluster}"]
                places = [late.index.get_loc(a.at) + 1 for a in named if a.at in late.index]
                others += len(named) - len(places)
                delays[name].append(min(places, default=np.inf))
            advance()
    table = Table(title=f"Drift alarms, seeds {seeds.start} to {seeds.stop - 1}", title_justify="left")
    for column in ("change of one cluster", "seen", "runs of that cluster until then: median", "largest"):
        table.add_column(column, justify="left" if column == "change of one cluster" else "right")
    for name, values in delays.items():
        hit = [value for value in values if np.isfinite(value)]
        shown = (f"{np.median(hit):.0f}", f"{max(hit):.0f}") if hit else ("-", "-")
        table.add_row(name, f"{len(hit)} of {len(values)}", *shown)
    Console(width=140).print(table)
    for kind, count in false.items():
        print(f"false alarms of {kind}: {1000 * count / runs:.2f} per 1,000 runs ({count} in {runs:,})")
    print(f"false alarms of the mix: {1000 * mix / tasks:.2f} per 1,000 tasks ({mix} in {tasks:,})")
    print(f"alarms of the changed clusters before their change: {others}; {time.process_time() - begin:.0f} CPU s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 10), metavar=("FIRST", "END"))
    main(range(*parser.parse_args().seeds))
