"""`python benchmarks/schedulers.py --data DIR`: the systems of a survey against the baselines that it names, as a page.

DIR holds `schedulers/elasticflow`, `schedulers/gavel_sim` and `philly`. Every comparison is on the same blocks of
consecutive jobs, both policies on each, so that the interval is of paired ratios or differences over blocks. There are
four kinds: gangs on 64 accelerators in one pool; the same with the deadlines of their traces; jobs of one accelerator
on three types; and such jobs with measured speeds of two together, half of them online. `--page` writes the page again
from the kept numbers, and runs nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.published.gavel import read_jobs, read_pairs
from mfcp.arrays import Floats, Ints
from mfcp.border.json_text import read_json
from mfcp.errors import guarded
from mfcp.files import write_json
from mfcp.progress import progress
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.event_log import stretches
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.outcome import Outcome
from mfcp.simulator.pairs import JobPairs
from mfcp.simulator.policies.base import Moment, Policy
from mfcp.simulator.policies.sharing.cognn import CoGnn
from mfcp.simulator.qore.training_losses import FALL
from mfcp.simulator.semantics import RoundTerms
from mfcp.simulator.simulation import import_policies, simulate
from mfcp.simulator.traces.description import at_load
from mfcp.simulator.traces.files import read_table

DOCS = Path(__file__).parents[1] / "docs"
NUMBERS, PAGE = DOCS / "simulator/schedulers.json", DOCS / "schedulers.md"
POOL, TYPES = Cluster.parse("64"), Cluster.parse("v100:8,p100:8,k80:8")
BLOCKS, JOBS, LOAD = 2, 200, 0.9  # blocks of each trace, jobs of a block, offered load
TYPED_LOAD = 0.5  # of accelerators as fast as the fastest: others are two to ten times slower
PAIRED_LOAD = 0.9  # of the same: only when not all jobs fit, Gandiva packs them
PATIENCE = (1.5, 4.0)  # deadlines of jobs that have none: so many times their duration on the fastest type
BUSY_W, IDLE_W, CLOCKS = 250.0, 60.0, (0.5, 0.75, 1.0)  # assumed watts, and frequencies to choose from
BUDGET_W = 10_000.0  # of PowerFlow: at that, jobs end about as early as under LAS
DRAWS = 2000


@dataclass(frozen=True)
class Block:
    """Jobs on a cluster; `speed` (n, K) on its types, `pairs` of those that share."""

    name: str
    jobs: Jobs
    cluster: Cluster
    speed: Floats | None = None
    pairs: JobPairs | None = None


@dataclass(frozen=True)
class Row:
    """A line of the survey's tables, and what we compare.

    Attributes:
        table, system: as there; against, claim: the survey's baseline and effect.
        ours, base: policies, by what `RUNS` or the registry knows.
        on: kind of blocks; metric: name in `METRICS`.
    """

    table: int
    system: str
    against: str
    claim: str
    ours: str
    base: str
    on: str
    metric: str


ROWS = (
    Row(6, "Tiresias (SRSF)", "Yarn", "mean JCT -78 %", "srsf", "fifo", "gangs", "mean JCT"),
    Row(6, "Tiresias (LAS)", "Yarn", "mean JCT -78 %", "las", "fifo", "gangs", "mean JCT"),
    Row(6, "Tiresias (promotion)", "LAS", "nobody starves", "las, promoted", "las", "gangs", "worst unfairness"),
    Row(6, "Tiresias (promotion)", "LAS", "mean JCT at that", "las, promoted", "las", "gangs", "mean JCT"),
    Row(6, "Themis", "Tiresias", "fairness 2.25 times", "themis", "las", "gangs", "worst unfairness"),
    Row(6, "Themis (auction)", "Tiresias", "fairness 2.25 times", "themis_auction", "las", "gangs", "worst unfairness"),
    Row(6, "AlloX", "SRTF", "mean JCT -95 %", "allox", "srtf", "types", "mean JCT"),
    Row(6, "Chronus", "EDF", "deadlines met +75 %", "chronus", "edf", "deadlines", "deadlines met"),
    Row(6, "Chronus", "EDF", "the same in whole leases", "chronus, whole leases", "edf", "deadlines", "deadlines met"),
    Row(7, "Hydra", "AlloX", "deadlines met +86 %", "hydra", "allox", "types", "deadlines met"),
    Row(7, "Hare", "Tiresias", "mean JCT -80 %", "hare", "las", "gangs", "mean JCT"),
    Row(7, "Gavel", "Themis", "fairness 2.8 times", "finish_time", "finish_time_blind", "types", "unfairness"),
    Row(8, "ElasticFlow", "Chronus", "deadlines met +50 %", "elastic_flow", "chronus", "deadlines", "deadlines met"),
    Row(8, "Pollux", "Optimus", "time to converge -37 %", "goodput", "optimus", "gangs", "mean JCT"),
    Row(8, "MuxFlow", "Gandiva", "utilization +45 %", "muxflow", "gandiva", "pairs", "accelerator time"),
    Row(8, "MuxFlow", "Gandiva", "online jobs on time", "muxflow", "gandiva", "pairs", "deadlines met"),
    Row(8, "MLFS", "HyperSched", "time to converge -64 %", "mlfs", "edf", "deadlines", "time to converge"),
    Row(9, "Gandiva", "Yarn", "utilization +26 %", "gandiva", "in_turn_fastest", "pairs", "accelerator time"),
    Row(9, "Gandiva", "Yarn", "mean JCT at that", "gandiva", "in_turn_fastest", "pairs", "mean JCT"),
    Row(9, "SMD", "Optimus", "utilization +30 %", "smd", "optimus", "gangs", "mean JCT"),
    Row(9, "CoGNN", "MPS, MIG", "mean JCT -75 %", "cognn", "cognn, in order", "pairs", "mean JCT"),
    Row(9, "PowerFlow", "Tiresias", "energy 1.57 times less", "powerflow", "las at full clock", "gangs", "energy"),
    Row(9, "PowerFlow", "Tiresias", "mean JCT at that", "powerflow", "las at full clock", "gangs", "mean JCT"),
)
BEST_PAIRS = Row(9, "", "", "", "fastest pairs", "cognn, in order", "pairs", "mean JCT")
"""What could be had at most from who shares with whom, for a note."""
_MURI, _REFERENCE, _HAND = "numbers of Muri", "an independent simulator", "properties of small cases, by hand"
HELD: dict[str, str] = {
    "srtf": f"{_MURI}; {_REFERENCE}",
    "antman": f"{_MURI}; {_HAND}",
    **dict.fromkeys(("muri_s", "muri_l"), f"{_MURI}; all matchings of small cases"),
    "srsf": f"{_MURI}; {_REFERENCE}",
    "las": f"{_MURI} and of ElasticFlow; {_REFERENCE}",
    "themis": f"{_MURI} and of ElasticFlow",
    **dict.fromkeys(("edf_widest", "elastic_flow", "gandiva_groups"), "numbers of ElasticFlow"),
    **dict.fromkeys(("allox", "max_min", "finish_time"), "numbers of Gavel and of Shockwave"),
    **dict.fromkeys(("las_shares", "finish_time_blind", "in_turn", "in_turn_fastest", "isolated"), "numbers of Gavel"),
    **dict.fromkeys(("in_turn_packed", "gandiva"), "numbers of Gavel"),
    "max_min_packed": "numbers of Gavel; another solver",
    **dict.fromkeys(
        ("water_filling", "max_min_in_parts", "max_min_admm", "throughput_per_cost", "least_makespan_packed"),
        "another solver",
    ),
    "muxflow": "all matchings of small cases",
    "cognn": "all pairings of small cases",
    "mlfs": "closed forms",
    **dict.fromkeys(("even_time", "most_throughput", "least_makespan"), "numbers of Shockwave"),
    **dict.fromkeys(("fifo", "sjf", "easy", "edf", "least_laxity", "qssf"), _REFERENCE),
    "quota": f"{_REFERENCE}; {_HAND}",
    "gittins": f"{_REFERENCE}; all orders of small cases",
    "hydra": "all orders of small cases",
    "chronus": "all plans of small cases",
    **dict.fromkeys(("goodput", "slaq"), "all sizes of small cases"),
    "themis_auction": "all allotments of small cases",
    "smd": "all choices of small cases",
    **dict.fromkeys(("qore", "hare", "optimus", "powerflow", "slaq_on_hosts", "elastic_flow_on_hosts"), _HAND),
    "qore_dl": f"{_HAND}; a loop over all sizes of a change",
    "optimus_on_hosts": "all sizes of small cases",
}
"""Policy → what its tests and the conformance benchmark hold it to."""


def blocks(data: Path, kind: str) -> Iterator[Block]:
    """The blocks of a kind; which jobs they have is drawn once."""
    rng = np.random.default_rng(0)
    if kind in ("types", "pairs"):
        folder = data / "schedulers/gavel_sim"
        for seed in (0, 42, 1234, 15):
            jobs, speed = read_jobs(folder, seed, 900.0)
            together = read_pairs(folder, seed)
            of_kind = np.ones(len(together.speed))
            of_kind[together.kind] = speed.max(axis=1)
            part = together.speed / np.stack(np.broadcast_arrays(of_kind[:, None], of_kind), axis=-1)[:, :, None]
            for start in rng.integers(0, 4000, BLOCKS + 1):
                rows = np.arange(start, start + JOBS)
                own = jobs.take(rows)
                best = speed[rows].max(axis=1)
                own = replace(own, submit=own.submit - own.submit[0], step=1 / best)
                patience = rng.uniform(*PATIENCE, JOBS) * own.duration
                if kind == "pairs":
                    patience[rng.permutation(JOBS)[: JOBS // 2]] = np.inf
                typed = PAIRED_LOAD if kind == "pairs" else TYPED_LOAD
                own = at_load(replace(own, deadline=own.submit + patience), TYPES, typed)
                pairs = JobPairs(together.kind[rows], part) if kind == "pairs" else None
                yield Block(f"gavel {seed}, {start}", own, TYPES, speed[rows] / best[:, None], pairs)
        return
    paths = sorted((data / "schedulers/elasticflow").glob("cluster*.parquet"))
    paths += [] if kind == "deadlines" else [data / "philly/jobs.parquet"]
    for path in paths:
        frame = read_table(path, ("submit_time_s", "num_gpus", "duration_s")).sort_values(
            "submit_time_s", kind="stable"
        )
        frame = frame[(frame["num_gpus"] <= POOL.accelerators) & (frame["num_gpus"] > 0) & (frame["duration_s"] > 0)]
        for start in rng.integers(0, len(frame) - JOBS, BLOCKS):
            own = frame.iloc[start : start + JOBS]
            submit, duration, gpus = (own[c].to_numpy(float) for c in ("submit_time_s", "duration_s", "num_gpus"))
            deadline = own["deadline_s"].to_numpy(float) - submit if kind == "deadlines" else np.full(JOBS, np.inf)
            first = submit[0]
            jobs = Jobs.simple(submit - first, gpus, duration, deadline=submit - first + deadline)
            yield Block(
                f"{path.stem if 'cluster' in path.stem else 'philly'}, {start}", at_load(jobs, POOL, LOAD), POOL
            )


def _plain(block: Block, policy: str | Policy) -> Outcome:
    policy = Policy.build(policy) if isinstance(policy, str) else policy
    options: dict[str, Any] = {"semantics": RoundTerms(round_s=60.0, reset_s=0.0)} if policy.clock == "rounds" else {}
    if policy.clock == "events" and block.speed is not None:
        options["placement"] = "fastest"
    return simulate(block.jobs, block.cluster, policy, speed=block.speed, pairs=block.pairs, **options)


def _with(name: str, **fields: Any) -> Callable[[Block], Outcome]:
    return lambda block: simulate(block.jobs, block.cluster, Policy.build(name, **fields))


class FastestPairs(CoGnn):
    """CoGNN's places, shared by the pairs that are fastest together, one after the other."""

    name: ClassVar[str] = "fastest_pairs"

    def _pairs(self, moment: Moment, kept: Floats, jobs: Ints, places: int, count: int) -> list[tuple[int, int]]:
        speed = np.where(np.isin(moment.pair, jobs).all(axis=1), kept.mean(axis=1).sum(axis=1), -1.0)
        found: list[tuple[int, int]] = []
        for row in np.argsort(-speed, kind="stable")[: int((speed >= 0).sum())]:
            one, other = moment.pair[row].tolist()
            if len(found) < count and not any(job in each for each in found for job in (one, other)):
                found.append((one, other))
        return found


RUNS: dict[str, Callable[[Block], Outcome]] = {
    "chronus": _with("chronus", limit_s=1.0),
    "chronus, whole leases": _with("chronus", limit_s=1.0, whole=True),
    "powerflow": _with("powerflow", budget_w=BUDGET_W, clocks=CLOCKS, idle_w=IDLE_W, busy_w=BUSY_W),
    "cognn, in order": lambda block: _plain(block, Policy.build("cognn", balanced=False)),
    "fastest pairs": lambda block: _plain(block, FastestPairs()),
    "las at full clock": lambda block: _plain(block, "las"),
    "las, promoted": lambda block: _plain(block, Policy.build("las", promote=8.0)),
}
"""How a policy is run where its name alone does not tell."""


def unfairness(outcome: Outcome) -> Floats:
    """(n,) completion time over that of an even share: the duration times how crowded the cluster was meanwhile."""
    jobs, end = outcome.jobs, outcome.finished
    times = np.concatenate([jobs.submit, end])
    order = np.argsort(times, kind="stable")
    asked = np.cumsum(np.concatenate([jobs.gpus, -jobs.gpus])[order])
    times = times[order]
    crowd = np.maximum(asked / outcome.cluster.accelerators, 1.0)[:-1] * np.diff(times)
    total = np.concatenate([[0.0], np.cumsum(crowd)])
    mean = (np.interp(end, times, total) - np.interp(jobs.submit, times, total)) / np.maximum(outcome.jct, 1e-9)
    result: Floats = outcome.jct / (jobs.duration * np.maximum(mean, 1.0))
    return result


CONVERGED = 0.9  # of the fall of its loss, after which a job has converged for "time to converge"


def time_to_converge(outcome: Outcome) -> Floats:
    """(n,) seconds from submission until nine tenths of the fall of a job's loss, along the curve of `mlfs`."""
    part = (1 / (1 - CONVERGED * FALL / (1 + FALL)) - 1) / FALL
    held = stretches(outcome.log).sort_values(["job", "start_s"], kind="stable")
    taken = (held["end_s"] - held["start_s"]).to_numpy()
    wanted = part * held["job"].map(dict(enumerate(outcome.executed))).to_numpy()
    before = held.assign(taken=taken).groupby("job")["taken"].cumsum().to_numpy() - taken
    there = (before < wanted) & (before + taken >= wanted - 1e-9)
    first = held[there].drop_duplicates("job").index
    rows = held.index.isin(first)
    moment = np.full(len(outcome.executed), np.nan)
    moment[held["job"].to_numpy()[rows]] = (held["start_s"].to_numpy() + wanted - before)[rows]
    return moment - outcome.jobs.submit


METRICS: dict[str, Callable[[Outcome], float]] = {
    "mean JCT": lambda outcome: outcome.metrics()["mean_jct_s"],
    "deadlines met": lambda outcome: outcome.metrics()["deadlines_met"],
    "worst unfairness": lambda outcome: float(unfairness(outcome).max()),
    "unfairness": lambda outcome: float(unfairness(outcome).mean()),
    "accelerator time": lambda outcome: float(outcome.held.sum()),
    "time to converge": lambda outcome: float(np.nanmean(time_to_converge(outcome))),
    "energy": lambda outcome: float(outcome.joules.sum() or outcome.held.sum() * BUSY_W),
}
SHARES = ("deadlines met",)  # compared by their difference; more is better


def measure(data: Path) -> dict[str, Any]:
    """Every metric that a row asks for, policy by policy, block by block."""
    import_policies()
    found: dict[str, Any] = {}
    wanted = (*ROWS, BEST_PAIRS)
    kinds = sorted({row.on for row in wanted})
    every = {kind: list(blocks(data, kind)) for kind in kinds}
    asked = sorted({(row.on, policy) for row in wanted for policy in (row.ours, row.base)})
    with progress("schedulers", sum(len(every[kind]) for kind, _ in asked)) as advance:
        for kind, policy in asked:
            metrics = sorted({row.metric for row in wanted if row.on == kind and policy in (row.ours, row.base)})
            values: dict[str, list[float]] = {metric: [] for metric in metrics}
            for block in every[kind]:
                outcome = RUNS.get(policy, partial(_plain, policy=policy))(block)
                for metric in metrics:
                    values[metric].append(METRICS[metric](outcome))
                advance()
            found.setdefault(kind, {})[policy] = values
    return {"blocks": {kind: [block.name for block in own] for kind, own in every.items()}, "found": found}


def compared(numbers: dict[str, Any], row: Row) -> tuple[float, float, float, float]:
    """Geometric mean over blocks of ours over the base's, or mean difference; its 95 % interval; the base's mean."""
    ours, base = (np.array(numbers["found"][row.on][name][row.metric]) for name in (row.ours, row.base))
    share = row.metric in SHARES
    each = ours - base if share else np.log(ours / base)
    drawn = np.random.default_rng(0).integers(0, len(each), (DRAWS, len(each)))
    values = np.array([each.mean(), *np.quantile(each[drawn].mean(axis=1), [0.025, 0.975])])
    low, middle, high = sorted(values if share else np.exp(values))
    return middle, low, high, float(base.mean())


INTRODUCTION = """\
# The survey's schedulers against its baselines

The survey of performance modelling for deep-learning schedulers names in Tables 6 to 9 a baseline and an effect for
every system. The effects are from each system's own paper, on traces and clusters of its own. Here each system stands
against the baseline that the survey names, or against what stands for it, both on the same jobs: the *order* is to be
compared, not the number.

Blocks are {jobs} consecutive jobs. `gangs`: {gangs} blocks of ten clusters of ElasticFlow's traces and of Philly, on 64
accelerators in one pool at a load of {load}. `deadlines`: {deadlines} of ElasticFlow's, with their deadlines, of which
about half cannot be met with as many accelerators as asked for. `types`: {types} of Gavel's jobs of one accelerator, on
eight V100, P100 and K80 each, with deadlines at {patience[0]:g} to {patience[1]:g} times the duration on the fastest.
`pairs`: {pairs} of the same, closer together, where two jobs may share an accelerator, with Gavel's measured speeds;
every second job, by chance, has no deadline and is offline to MuxFlow.
Durations are known. Elastic jobs scale as accelerators to the power 0.9. Intervals resample blocks.

| table | system | survey | here, on | metric | ratio or difference | order |
|---|---|---|---|---|---|---|
"""
NOTES = """
- Unfairness is a completion time over the duration times how crowded the cluster was meanwhile: 1 is an even share.
- Policies of rounds (`allox`, `finish_time`) decide every 60 s here, the others at every event.
- Accelerator time is what all jobs together hold until they have ended: the same work in less of it is what higher
  utilization stands for here. Of a pair each job holds half. Gandiva packs online jobs with each other when not all
  jobs fit; MuxFlow never does, and shares only where the online job keeps four fifths of its speed.
- CoGNN stands against itself with pairs in the order of submission, which is how MPS shares; MIG is not here. What its
  model tells of memory accesses is measured speeds of two together here, and the jobs are Gavel's. Who shares with whom
  matters little to these: the pairs that are fastest together have {pairs} of the mean JCT of pairs in order.
- MLFS: the heuristic of its first phase, not the learned policy. Losses are not in the traces: both policies are judged
  along the curve that it assumes, 1 / (1 + 9 p) after a part p of a job, by the time until nine tenths of the fall.
  HyperSched divides time until a deadline among trials of one job and is not here; EDF stands for it.
- Energy counts accelerators in use: {busy:g} W at full clock, {idle:g} W of it idle, the rest by the cube of the clock,
  which is assumed. LAS runs at full clock, 16 kW of 64; PowerFlow has a budget of {budget:g} kW.
- Tiresias' promotion has no figure in the survey. Here a job goes back to the first level after eight times as long as
  it ran; the factor is ours.
- In Themis' auction jobs bid for any number of accelerators, and run on what they win; under LAS they have what they
  ask for.
- Chronus plans in leases of 20 minutes. Counted in whole leases, as its authors do, a job that ends within a lease
  misses its deadline in the plan if that lies in the same one; ours counts to the second.
- Hare's rounds and Pollux' speed-ups are of the simulator's own configurations, not of the papers' jobs.

## What each policy was held to

| policy | held to |
|---|---|
"""
END = """
`numbers` are published ones, `python benchmarks/conformance.py --data DIR` compares them ([what
agrees](simulator.md)); the rest is in `tests/simulator`.

Run it again: `python benchmarks/schedulers.py --data DIR`.
"""


def page(numbers: dict[str, Any]) -> str:
    """The page as text."""
    count = {kind: len(names) for kind, names in numbers["blocks"].items()}
    pairs = "{:.2f} [{:.2f}, {:.2f}]".format(*compared(numbers, BEST_PAIRS))
    held = "".join(f"| `{name}` | {what} |\n" for name, what in sorted(HELD.items()))
    return (
        INTRODUCTION.format(jobs=JOBS, load=LOAD, patience=PATIENCE, **count)
        + "".join(_line(numbers, row) for row in ROWS)
        + NOTES.format(busy=BUSY_W, idle=IDLE_W, budget=BUDGET_W / 1000, pairs=pairs)
        + held
        + END
    )


def _line(numbers: dict[str, Any], row: Row) -> str:
    first = f"| {row.table} | {row.system} | {row.claim} against {row.against} |"
    middle, low, high, base = compared(numbers, row)
    share = row.metric in SHARES
    number = f"{middle:.2f} [{low:.2f}, {high:.2f}]"
    if share:
        number = f"{middle:+.3f} [{low:+.3f}, {high:+.3f}] to {base:.3f}"
    better, worse = (low > 0, high < 0) if share else (high < 1, low > 1)
    order = "as there" if better else "**the other way**" if worse else "open"
    return f"{first} `{row.ours}` / `{row.base}`, {row.on} | {row.metric} | {number} | {order} |\n"


def main() -> None:
    """Measure and write, or write only."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of schedulers and philly")
    parser.add_argument("--page", action="store_true", help="write the page from the kept numbers only")
    options = parser.parse_args()
    if not options.page:
        if options.data is None:
            parser.error("--data: expected the folder that holds schedulers and philly")
        write_json(NUMBERS, measure(options.data))
    PAGE.write_text(page(read_json(NUMBERS)), encoding="utf-8")
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    sys.exit(guarded(main))
