"""`python benchmarks/accuracy.py --data DIR`: what an accurate duration is worth to a scheduler, as a page.

DIR holds `schedulers/elasticflow` (ten clusters of ITP) and `philly`. Every cluster, and every window of Philly, is a
block: up to 10,000 consecutive jobs on 64 accelerators in one pool, as sampled and with submissions stretched to a load
of 0.9. Shortest remaining service first (SRSF) sees durations with a relative error; LAS sees none, under several
thresholds. `--page` writes the page again from the kept numbers, and runs nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mfcp.border.json_text import read_json
from mfcp.files import write_json
from mfcp.progress import progress
from mfcp.simulator.beliefs import NoisyDurations
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Policy
from mfcp.simulator.simulation import import_policies, simulate

DOCS = Path(__file__).parents[1] / "docs"
NUMBERS, PAGE, FIGURE = DOCS / "simulator/accuracy.json", DOCS / "accuracy.md", DOCS / "simulator/accuracy.png"
POOL, LONGEST, LOAD, SEEDS = 64, 10_000, 0.9, 5
ERRORS = (0.0, 0.10, 0.25, 0.50, 0.75)
HOUR = 3600.0
LIMITS = {
    "1": (HOUR,), "5": (5 * HOUR,), "16": (16 * HOUR,), "1, 6, 36": (HOUR, 6 * HOUR, 36 * HOUR),
    "1/6, 1, 6, 36": (600.0, HOUR, 6 * HOUR, 36 * HOUR),
    "1/36, 1/6, 1, 6, 36": (100.0, 600.0, HOUR, 6 * HOUR, 36 * HOUR),
}  # fmt: skip
"""Thresholds of LAS in accelerator-hours."""


def blocks(data: Path) -> Iterator[tuple[str, pd.DataFrame]]:
    """Name and (submit, duration, gpus) of every block."""
    for path in sorted((data / "schedulers/elasticflow").glob("cluster*.parquet")):
        frame = pd.read_parquet(path, columns=["submit_time_s", "duration_s", "num_gpus"])
        yield path.stem, frame.sort_values("submit_time_s", kind="stable").iloc[:LONGEST]
    if (path := data / "philly/jobs.parquet").exists():
        frame = pd.read_parquet(path, columns=["submit_time_s", "duration_s", "num_gpus"])
        for number in range(len(frame) // LONGEST):
            yield f"philly {number + 1}", frame.iloc[number * LONGEST : (number + 1) * LONGEST]


def measure(data: Path) -> dict[str, Any]:
    """Mean completion times of all blocks."""
    import_policies()
    found = []
    every = list(blocks(data))
    with progress("accuracy", 2 * len(every)) as advance:
        for name, frame in every:
            frame = frame[(frame["num_gpus"] <= POOL) & (frame["duration_s"] > 0)]
            submit, duration, gpus = (frame[c].to_numpy(float) for c in ("submit_time_s", "duration_s", "num_gpus"))
            load = float((duration * gpus).sum() / (POOL * (submit[-1] - submit[0])))
            for stretched in (False, True):
                times = submit * load / LOAD if stretched else submit
                jobs = Jobs.simple(times - times[0], gpus, duration)
                found.append({"block": name, "load": LOAD if stretched else round(load, 2), **_runs(jobs)})
                advance()
            shape = {
                "jobs": len(frame),
                "wide": float((gpus >= 4).mean()),
                "short": float((duration < HOUR / 2).mean()),
            }
            found[-1] |= shape
            found[-2] |= shape
    return {"pool": POOL, "seeds": SEEDS, "errors": list(ERRORS), "limits": list(LIMITS), "stretched": LOAD,
            "blocks": found}  # fmt: skip


def _runs(jobs: Jobs) -> dict[str, Any]:
    cluster = Cluster.parse(str(POOL))
    srsf = [
        [_mean(jobs, cluster, "srsf", NoisyDurations(mre=error), seed) for seed in range(SEEDS if error else 1)]
        for error in ERRORS
    ]
    las = [_mean(jobs, cluster, "las", NoisyDurations(mre=0.0), 0, limits=limits) for limits in LIMITS.values()]
    fifo = _mean(jobs, cluster, "fifo", NoisyDurations(mre=0.0), 0, skip="any")
    return {"srsf_h": srsf, "las_h": las, "fifo_h": fifo}


def _mean(jobs: Jobs, cluster: Cluster, name: str, belief: NoisyDurations, seed: int, **fields: Any) -> float:
    outcome = simulate(jobs, cluster, Policy.build(name, **fields), belief=belief, seed=seed)
    return round(float(outcome.jct.mean()) / HOUR, 4)


def ratios(numbers: dict[str, Any], stretched: bool) -> tuple[np.ndarray, np.ndarray]:
    """(blocks, errors) and (blocks, thresholds) mean completion times over that of SRSF with true durations."""
    rows = numbers["blocks"][int(stretched) :: 2]
    srsf = np.array([[np.mean(each) for each in row["srsf_h"]] for row in rows])
    las = np.array([row["las_h"] for row in rows])
    return srsf / srsf[:, :1], las / srsf[:, :1]


def interval(values: np.ndarray) -> str:
    """Mean over blocks with a 95 % interval, by a bootstrap over blocks."""
    draws = np.random.default_rng(0).choice(values, (4000, len(values))).mean(axis=1)
    low, high = np.quantile(draws, [0.025, 0.975])
    return f"{values.mean():.2f} [{low:.2f}, {high:.2f}]"


def page(numbers: dict[str, Any]) -> str:
    """The page that the numbers give."""
    lines = [
        "# What an accurate duration is worth", "",
        "A scheduler that knows how long jobs take can run the short ones first. This page shows how much of that is",
        "left when its durations are wrong, and what a scheduler gets that does without them. It repeats Fig. 4 of the",
        "survey of Yang et al. (J. of Software 36(4), 2025) on public traces.", "",
        f"Each block is up to {LONGEST:,} jobs of one cluster on {numbers['pool']} accelerators. Jobs are preempted at",
        "no cost. SRSF runs the job with the least accelerator-time left, by durations whose errors are lognormal",
        f"factors of mean 1 (mean relative error, MRE; {numbers['seeds']} draws). LAS knows no durations: it runs the",
        "jobs that have had least service, in levels. Brackets are 95 % intervals by a bootstrap over blocks.", "",
    ]  # fmt: skip
    views = [
        (f"Submissions stretched to a load of {numbers['stretched']:g}", True), ("As sampled", False),
    ]  # fmt: skip
    lines += [
        "| mean completion time over that of SRSF with true durations | " + " | ".join(v for v, _ in views) + " |"
    ]
    lines += ["|---|---|---|"]
    found = [ratios(numbers, stretched) for _, stretched in views]
    for k, error in enumerate(numbers["errors"]):
        cells = [interval(srsf[:, k]) if k else "1" for srsf, _ in found]
        lines.append(f"| SRSF, MRE {100 * error:g} % | " + " | ".join(cells) + " |")
    for k, limits in enumerate(numbers["limits"]):
        lines.append(f"| LAS, levels at {limits} GPU·h | " + " | ".join(interval(las[:, k]) for _, las in found) + " |")
    best = [interval(las.min(axis=1)) for _, las in found]
    lines += ["| LAS, the best of these levels on each block | " + " | ".join(best) + " |", ""]
    lines += [*_findings(numbers, found), "", f"![Ratios of all blocks]({FIGURE.relative_to(PAGE.parent)})", ""]
    lines += [
        "## The blocks",
        "",
        "| block | jobs | load | ≥ 4 GPUs | < 30 min | > 12 h | SRSF, true [h] |",
        "|" + "---|" * 7,
    ]
    for row, other in zip(numbers["blocks"][::2], numbers["blocks"][1::2], strict=True):
        shape = f"{row['jobs']:,} | {row['load']:g} | {100 * row['wide']:.1f} % | {100 * row['short']:.1f} %"
        true = f"{row['srsf_h'][0][0]:.2f}, stretched {other['srsf_h'][0][0]:.2f}"
        lines.append(f"| {row['block']} | {shape} | {100 * row['long']:.1f} % | {true} |")
    lines += [
        "", "The survey's own trace has 11.1 % of jobs on four or more accelerators, 56.0 % below half an hour and",
        "8.9 % above twelve hours; absolute times cannot agree. It gives neither the law of the errors nor the levels",
        "of LAS.",
        "", "Run it again: `python benchmarks/accuracy.py --data DIR`.", "",
    ]  # fmt: skip
    return "\n".join(lines)


def _findings(numbers: dict[str, Any], found: list[tuple[np.ndarray, np.ndarray]]) -> list[str]:
    (srsf, las), (raw, raw_las) = found
    worst, count = len(numbers["errors"]) - 1, len(srsf)
    rises = [int((np.diff(each, axis=1) >= -1e-3).all(axis=1).sum()) for each in (srsf, raw)]
    behind = [int((table.min(axis=1) > each[:, worst]).sum()) for each, table in ((srsf, las), (raw, raw_las))]
    return [
        f"- More error never shortens the mean on {rises[0]} of {count} blocks when stretched, and on {rises[1]} as"
        " sampled.",
        f"- An error of 10 % costs {100 * (srsf[:, 1].mean() - 1):.1f} % of completion time on average,"
        f" 25 % {100 * (srsf[:, 2].mean() - 1):.1f} %, 75 % {100 * (srsf[:, worst].mean() - 1):.1f} % (stretched).",
        f"- LAS with its best levels is still behind SRSF with an error of 75 % on {behind[0]} of {count} blocks when"
        f" stretched, and on {behind[1]} as sampled.",
        f"- Its levels matter more than the error: from the best to the worst of them, the mean grows by a factor of"
        f" {np.median(las.max(axis=1) / las.min(axis=1)):.1f} in the median block (stretched), and at most"
        f" {(las.max(axis=1) / las.min(axis=1)).max():.1f}.",
    ]  # fmt: skip


def draw(numbers: dict[str, Any], path: Path) -> None:
    """A line per block, for both loads."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.8), layout="constrained")
    for place, stretched in enumerate((True, False)):
        srsf, las = ratios(numbers, stretched)
        axis = figure.add_subplot(1, 2, place + 1)
        errors = 100 * np.array(numbers["errors"])
        axis.plot(errors, srsf.T, color="0.75", linewidth=1)
        axis.plot(errors, srsf.mean(axis=0), color="C0", linewidth=2, label="SRSF, mean of blocks")
        axis.plot(
            np.full(len(las), 90.0), las.min(axis=1), ".", color="C1", label="LAS, best levels, a point per block"
        )
        axis.set_xticks([*errors, 90], [*(f"{e:g} %" for e in errors), "LAS"])
        axis.set_yscale("log")
        axis.set_yticks([1, 1.5, 2, 3, 5], ["1", "1.5", "2", "3", "5"])
        axis.minorticks_off()
        axis.set_title("stretched to a load of 0.9" if stretched else "as sampled")
        axis.set_xlabel("mean relative error of durations")
        axis.set_ylabel("mean completion time,\nratio to SRSF with the truth" if place == 0 else "")
        axis.legend(frameon=False, fontsize=8, loc="upper left")
    figure.savefig(path, dpi=110)


def main() -> None:
    """Measure, and write numbers, figure and page."""
    parser = argparse.ArgumentParser(description=__doc__)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--data", type=Path, help="folder with schedulers/elasticflow and philly")
    source.add_argument("--page", action="store_true", help="only the page and the figure, from the kept numbers")
    options = parser.parse_args()
    if options.data:
        if not any(True for _ in blocks(options.data)):
            parser.error(f"--data: {options.data} has no schedulers/elasticflow/cluster*.parquet; name its folder")
        write_json(NUMBERS, measure(options.data))
    numbers = read_json(NUMBERS)
    draw(numbers, FIGURE)
    PAGE.write_text(page(numbers), encoding="utf-8")
    print(f"{PAGE} and {FIGURE}")


if __name__ == "__main__":
    main()
