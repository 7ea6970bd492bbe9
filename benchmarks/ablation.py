"""What each part of Qore-DL brings, on drawn jobs and hosts: `python benchmarks/ablation.py --data DIR`.

DIR holds `iteration_time.parquet` of Qore-DL's public log. Times of iterations are those of its models: what is true is
learned from all of the log, what is believed from half of its configurations. Everything else is drawn, by `draw`; the
deadline is the authors': the time of one worker × U(0.66, 2.44) + 750 s. All systems have the same jobs and hosts, and
the same predictions. `--page` writes the page from the kept numbers, and runs nothing.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.qoredl import file_of
from benchmarks.workers import run
from mfcp.arrays import Floats, Ints
from mfcp.border.json_text import read_json
from mfcp.errors import guarded
from mfcp.files import write_json
from mfcp.simulator.clocks.hosted import run_hosted
from mfcp.simulator.clocks.hosted_parts import SERVER, HostedParts
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.course import Course
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.hosting import Hosting
from mfcp.simulator.policies.on_hosts.qore_dl import QoreDl
from mfcp.simulator.policies.on_hosts.sizing_all import HostedElasticFlow, HostedOptimus, HostedSlaq
from mfcp.simulator.qore.adjuster import Times
from mfcp.tasks.timing.allocated import AllocatedTimes, Allocations

DOCS = Path(__file__).parents[1] / "docs"
NUMBERS, PAGE = DOCS / "simulator/ablation.json", DOCS / "qore-ablation.md"
SEEDS, LOADS, JOBS, DRAWS = 12, (1.0, 2.0, 3.0), 150, 4000
HOSTS = np.tile([0.0, 16.0, 32.0], (12, 1))  # accelerators, cores and GiB
HOURS = 1.5  # median time of one worker, log-normal with deviation 0.8
METRICS = {"deadlines_met": "deadlines met", "work_met": "by work", "useful": "useful", "mean_jct_s": "mean JCT [s]"}


SYSTEMS: dict[str, Hosting] = {
    "nothing": QoreDl(servers=True, spread="first", order="fifo", sized=False, generous=1.3, adjusts=False),
    "configurator": QoreDl(servers=True, spread="first", order="fifo", adjusts=False),
    "+ scheduler": QoreDl(servers=True, adjusts=False),
    "+ adjuster": QoreDl(servers=True),
    "+ genetic adjuster": QoreDl(servers=True, search="genetic"),
    "EDF": QoreDl(servers=True, order="edf", adjusts=False),
    "EDF + adjuster": QoreDl(servers=True, order="edf"),
    "SRSF": QoreDl(servers=True, order="srsf", adjusts=False),
    "ElasticFlow": HostedElasticFlow(servers=True),
    "Optimus": HostedOptimus(servers=True),
    "SLAQ": HostedSlaq(servers=True),
}
STAGES = (
    ("configurator", "nothing"), ("+ scheduler", "configurator"), ("+ adjuster", "+ scheduler"),
    ("+ scheduler", "EDF"), ("+ adjuster", "EDF + adjuster"), ("+ adjuster", "ElasticFlow"), ("+ adjuster", "Optimus"),
    ("+ adjuster", "SLAQ"), ("+ adjuster", "SRSF"),
)  # fmt: skip
EASY = 0.95  # of the deadlines met by what users ask for
ERROR = 0.24
"""Of the iterations that are left, mean of |error|: among what `benchmarks/convergence.py` finds at half of a run."""


@cache
def learned(data: Path) -> tuple[Floats, AllocatedTimes, AllocatedTimes]:
    """(T, 3) figures of the models in the log; times as they are, and as learned from half of the configurations."""
    frame = pd.read_parquet(data / "iteration_time.parquet")
    work, given = frame[["batch_size", "flops", "param_count"]], frame[["cpu_share", "memory_share"]]
    runs = Allocations(work.to_numpy(float), given.to_numpy(float))
    seconds = frame["iteration_time_raw"].to_numpy(float)
    whole = np.concatenate([runs.work, runs.given], axis=1)
    _, of = np.unique(whole, axis=0, return_inverse=True)
    half = np.random.default_rng(0).random(of.max() + 1)[of.ravel()] < 0.5
    known = np.flatnonzero(half)
    return (
        np.unique(runs.work, axis=0), AllocatedTimes.fit(runs, seconds),
        AllocatedTimes.fit(runs.take(known), seconds[known]),
    )  # fmt: skip


def times(model: AllocatedTimes, work: Floats, peak: Floats) -> Times:
    """Seconds of iterations of jobs by what a worker is given, whose peak needs are known."""

    def of(rows: Ints, sizes: Floats) -> Floats:
        share = (sizes[..., 1:] / peak[rows, None, 1:]).reshape(-1, 2)
        asked = Allocations(np.repeat(work[rows], sizes.shape[1], axis=0), share)
        return model.predict(asked).reshape(sizes.shape[:2])

    return of


@dataclass(frozen=True)
class Draw:
    """Jobs as they are, with what is believed of their (n,) seconds, and what they need of the hosts."""

    jobs: Jobs
    expected: Floats
    parts: HostedParts


def draw(data: Path, seed: int, load: float) -> Draw:
    """Jobs whose work takes all hosts so much of the time in which they come."""
    figures, true, predicted = learned(data)
    rng = np.random.default_rng(seed)
    work = figures[rng.integers(len(figures), size=JOBS)]
    peak = np.stack([np.zeros(JOBS), rng.uniform(1.0, 4.0, JOBS), rng.uniform(1.0, 6.0, JOBS)], axis=1)
    rows = np.arange(JOBS)
    full = times(true, work, peak)(rows, peak[:, None])[:, 0]
    alone = 3600 * HOURS * np.exp(rng.normal(0, 0.8, JOBS))
    limit = np.maximum(np.round(alone / full), 10.0)
    needed = np.maximum(np.round(limit * rng.uniform(0.4, 1.0, JOBS)), 1.0)
    deadline = full * limit * rng.uniform(0.66, 2.44, JOBS) + 750.0
    spread = ERROR * np.sqrt(np.pi / 2)
    guessed = np.clip(needed * np.exp(rng.normal(0, spread, JOBS)), 1.0, limit)
    # One server for two workers.
    share = ((1 + SERVER / 2) * peak[:, 1:] / HOSTS[:, 1:].sum(axis=0)).max(axis=1)
    span = float((needed * full * share).sum()) / load
    submit = np.sort(rng.uniform(0, span, JOBS))
    asked = rng.integers(1, 5, JOBS)
    step = full / asked
    jobs = Jobs(rows.astype(str), submit, asked, needed, step, deadline=submit + deadline)
    seconds = times(true, work, peak), times(predicted, work, peak)
    return Draw(jobs, guessed * step, HostedParts(HOSTS, peak, SERVER * peak, *seconds, limit))


def one(data: Path, what: tuple[float, int]) -> dict[str, dict[str, float]]:
    """The metrics of every system on the same jobs."""
    load, seed = what
    drawn, found = draw(data, seed, load), {}
    jobs, cluster = drawn.jobs, Cluster(np.ones(len(HOSTS), np.int64), np.zeros(len(HOSTS), np.int64))
    for name, policy in SYSTEMS.items():
        course = Course(jobs, cluster, drawn.expected, np.empty((JOBS, 0)))
        outcome = run_hosted(course, policy, drawn.parts, seed)
        met = outcome.finished <= jobs.deadline
        found[name] = {
            "deadlines_met": float(met.mean()), "work_met": float(np.average(met, weights=jobs.service)),
            "useful": float(np.average(met, weights=outcome.taken)), "mean_jct_s": float(outcome.jct.mean()),
            "changes": float(outcome.work["changes"]),
        }  # fmt: skip
    return found


def measure(data: Path, workers: int) -> dict[str, Any]:
    """Of every load, system and metric, a value a seed."""
    cases = [(load, seed) for load in LOADS for seed in range(SEEDS)]
    found: dict[str, Any] = {f"{load:g}": {name: {m: [] for m in (*METRICS, "changes")} for name in SYSTEMS}
                             for load in LOADS}  # fmt: skip
    answers = run(one, [(data, case) for case in cases], workers, "ablation")
    for (load, _), metrics in zip(cases, answers, strict=True):
        for name, own in metrics.items():
            for metric, values in found[f"{load:g}"][name].items():
                values.append(own[metric])
    return {"found": found}


def difference(ours: Floats, base: Floats) -> tuple[float, float, float]:
    """Mean of paired differences over seeds, and its 95 % interval."""
    each = ours - base
    drawn = np.random.default_rng(0).integers(0, len(each), (DRAWS, len(each)))
    low, high = np.quantile(each[drawn].mean(axis=1), [0.025, 0.975])
    return float(each.mean()), float(low), float(high)


INTRODUCTION = """\
# What each part of Qore-DL brings

{jobs} jobs come to twelve hosts of 16 cores and 32 GiB, {seeds} draws at each load. A job's workers share its
iterations, and one parameter server serves two of them. Seconds of an iteration by CPU and memory are those of the
models in Qore-DL's public log: what is true is learned from all of it, what is believed from half of its
configurations. Deadlines are the authors': the time of one worker × U(0.66, 2.44) + 750 s. All else is drawn: the time
of one worker (median {hours:g} h, log-normal), needs of 1 to 4 cores and 1 to 6 GiB, iterations until convergence (40
to 100 % of the limit), which are believed with an error of {error:.0%}: at half of a run our own curve fit has
[9 to 26 %](qore-dl.md#convergence). Users ask for 1 to 4 workers of 1.3 times what they use. Peak needs are known; no
public data tells how well they can be predicted.

*Configurator* sizes jobs before they start (Eq. 5); *scheduler* orders the queue by Eq. 8 and gives parts to the least
loaded hosts (Eqs. 1, 16, 17); *adjuster* changes running jobs every two minutes (Eqs. 11 to 15), each change at the
cost of 10 s. Without them jobs start in the order of submission on the first hosts with room. The others have the
configurator's predictions and the least loaded hosts; EDF and SRSF its sizes too, and with `+ adjuster` all that
Qore-DL has but its order; ElasticFlow, Optimus and SLAQ size all jobs anew at every event and tick, of at most five
workers, and pay as much for a change. A worker gets its peak needs; a job that finds no room for want of CPU comes
again with .85 of it, theirs too; the adjuster may give more or less.

The load is the work of all jobs over what the hosts can do while jobs come; above 1 a queue grows and is worked off.
*By work* weighs jobs by their work; *useful* is the part of what was held that jobs on time held. Means over draws.
"""
TABLE = """
## At a load of {load}

| system | deadlines met | by work | useful | mean JCT [s] | changes |
|---|---|---|---|---|---|
"""
STEPS = """
| step | deadlines met | by work | useful | mean JCT [s] |
|---|---|---|---|---|
"""
END = """
Differences are paired by draw, with 95 % intervals of draws. The paper reports up to 42.4 % more deadlines met and 21.8
% more efficiency on testbeds that are not public; only the sign can be compared.

Run it again: `python benchmarks/ablation.py --data DIR`, with the folder of Qore-DL's log.
"""


def page(numbers: dict[str, Any]) -> str:
    """The page as text."""
    text = INTRODUCTION.format(jobs=JOBS, seeds=SEEDS, hours=HOURS, error=ERROR)
    for load, own in numbers["found"].items():
        text += TABLE.format(load=load)
        for name in SYSTEMS:
            means = {metric: float(np.mean(values)) for metric, values in own[name].items()}
            text += (
                f"| {name} | {means['deadlines_met']:.3f} | {means['work_met']:.3f} | {means['useful']:.3f} | "
                f"{means['mean_jct_s']:,.0f} | {means['changes']:,.0f} |\n"
            )
        text += STEPS
        for ours, base in STAGES:
            cells = []
            for metric in METRICS:
                middle, low, high = difference(np.array(own[ours][metric]), np.array(own[base][metric]))
                digits = ",.0f" if metric == "mean_jct_s" else ".3f"
                cells.append(f"{middle:+{digits}} [{low:+{digits}}, {high:+{digits}}]")
            text += f"| {ours} over {base} | {' | '.join(cells)} |\n"
    return text + _findings(numbers) + END


def _findings(numbers: dict[str, Any]) -> str:
    """Where each step raises the deadlines met, and where not."""
    text = "\n## What it says\n\nDeadlines met, by count:\n\n"
    for ours, base in STAGES:
        verdicts: dict[str, list[str]] = {}
        for load, own in numbers["found"].items():
            pair = (np.array(own[name]["deadlines_met"]) for name in (ours, base))
            _, low, high = difference(*pair)
            verdicts.setdefault("more" if low > 0 else "fewer" if high < 0 else "open", []).append(load)
        said = "; ".join(f"{verdict} at {', '.join(loads)}" for verdict, loads in verdicts.items())
        text += f"- {ours} over {base}: {said}.\n"
    easy = [load for load, own in numbers["found"].items() if np.mean(own["nothing"]["deadlines_met"]) >= EASY]
    if easy:
        text += (
            f"\nAt {', '.join(easy)} users miss hardly a deadline without any of this, and little is left to gain.\n"
        )
    return text


def main() -> None:
    """Measure and write, or write only."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of Qore-DL's log")
    parser.add_argument("--workers", type=int, default=2, help="processes (2)")
    parser.add_argument("--page", action="store_true", help="write the page from the kept numbers only")
    options = parser.parse_args()
    if not options.page:
        if options.data is None:
            parser.error("--data: expected the folder of Qore-DL's log")
        write_json(NUMBERS, measure(file_of(options.data).parent, options.workers))
    PAGE.write_text(page(read_json(NUMBERS)), encoding="utf-8")
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    sys.exit(guarded(main))
