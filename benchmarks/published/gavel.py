"""Gavel (Narayanan et al., OSDI 2020): shares of three types of accelerators, one-GPU jobs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from benchmarks.published.results import Number, Trial, tried
from mfcp.arrays import Floats
from mfcp.progress import progress
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.pairs import JobPairs
from mfcp.simulator.policies.base import Moment, Policy, Shares
from mfcp.simulator.policies.sharing.allox import Allox
from mfcp.simulator.policies.sharing.finish_time import FinishTime, ratio_program
from mfcp.simulator.simulation import import_policies, simulate

POLICIES = {
    "allox": "allox", "fifo": "in_turn", "fifo_perf": "in_turn_fastest",
    "max_min_fairness": "las_shares", "max_min_fairness_perf": "max_min", "finish_time_fairness": "finish_time_blind",
    "finish_time_fairness_perf": "finish_time", "fifo_packed": "in_turn_packed", "gandiva": "gandiva",
    "max_min_fairness_packed": "max_min_packed",
}  # fmt: skip
SHUFFLED = "allox, shuffled"
OTHERWISE = ("finish_time, fast types", "finish_time, any types")
TILT = 1e-5  # of the ratio: what a share costs less of jobs that no ratio holds
AS_PUBLISHED = {"in_turn": {"published": True}, "gandiva": {"published": True}}
BLIND = ("las_shares", "finish_time_blind")
ORDERS, TIES = (1, 2, 3), range(1, 17)  # seeds of what is drawn in experiments; of AlloX, whose runs part at a tie
MAX_MIN = "max_min_fairness_perf"
WAYS = ("max_min", "max_min_admm", "max_min_in_parts")
APART = 0.01  # of a time; what lies closer is on either side by chance
FIRST, LAST = 4000, 5000  # jobs that are measured, the latter not; runs stop when it has ended, too
IN_TURN = ("in_turn", "in_turn_fastest", "in_turn_packed")  # no solver, no ties: to the printed digit


def numbers(folder: Path, rates: float) -> Iterator[Number]:
    """The published numbers up to a rate of jobs an hour."""
    import_policies()
    expected = json.loads((folder / "expected.json").read_text())["results"]
    expected = [row for row in expected if row["rate_jobs_per_h"] <= rates]
    with progress("gavel_sim", len(expected)) as advance:
        for row in expected:
            yield _number(folder, row)
            advance()


def _number(folder: Path, row: dict[str, Any]) -> Number:
    what = row["policy"], f"seed {row['seed']}, {row['rate_jobs_per_h']} jobs/h", row["metric"]
    policy, measure = POLICIES.get(row["policy"]), MEASURES.get(row["metric"])
    if policy is None:
        return Number(*what, row["value"], None, None, "no such policy here")
    if measure is None:
        return Number(*what, row["value"], None, None, "how utilisation was counted is not known")
    gap = row.get("mean_gap_s") or 3600 / row["rate_jobs_per_h"]
    run = partial(_completion_times, folder, seed=row["seed"], gap=gap, earlier=row["metric"] in OF_THE_NOTEBOOK)
    exact = policy in IN_TURN and row["metric"] == "mean_jct_h"
    bound = 1e-3 if exact else BOUNDS[row["metric"]]
    number = Number(*what, row["value"], measure(run, policy), bound)

    def trial() -> Trial:
        if policy == "allox":
            others = [measure(partial(run, order=order), SHUFFLED) for order in TIES]
            return Trial("matchings of equal cost, by shuffling", (measure(run, policy), *others))
        if policy == "finish_time":
            return Trial("other solutions of the program", tuple(measure(run, of) for of in (policy, *OTHERWISE)))
        others = [measure(partial(run, order=order), policy) for order in ORDERS]
        return Trial("other orders of the types", (measure(run, policy), *others))

    return tried(number, trial if policy in (*BLIND, "allox", "finish_time") else None)


@dataclass(frozen=True)
class Order:
    """Mean completion times in hours at a rate, and how many of the other policies are on the side where they were.

    Attributes:
        rate: jobs an hour.
        published: of max-min fairness.
        ours: by how shares are found.
        kept: of each way, published policies that are slower or faster than it as they are than the published value.
        others: published policies that differ from it by more than `APART`.
    """

    rate: float
    published: float
    ours: dict[str, float]
    kept: dict[str, int]
    others: int


def orders(folder: Path, rates: float) -> list[Order]:
    """Max-min fairness by other ways than a linear program, among all published policies, at each rate up to one."""
    import_policies()
    table = pd.DataFrame(json.loads((folder / "expected.json").read_text())["results"])
    table = table[(table["metric"] == "mean_jct_h") & (table["rate_jobs_per_h"] <= rates) & (table["seed"] == 0)]
    groups = [(rate, group) for rate, group in table.groupby("rate_jobs_per_h") if (group["policy"] == MAX_MIN).any()]
    result = list[Order]()
    with progress("gavel_sim", len(groups) * len(WAYS)) as advance:
        for rate, group in groups:
            published = group.set_index("policy")["value"]
            own = float(published.pop(MAX_MIN))
            others = published[(published / own - 1).abs() > APART].to_numpy()
            ours, kept = dict[str, float](), dict[str, int]()
            for way in WAYS:
                run = partial(_completion_times, folder, seed=0, gap=3600 / float(rate), earlier=True)
                ours[way] = MEASURES["mean_jct_h"](run, way)
                kept[way] = int(((others < ours[way]) == (others < own)).sum())
                advance()
            result.append(Order(float(rate), own, ours, kept, len(others)))
    return result


class AlloxShuffled(Allox):
    """The same with jobs and types in any order: of matchings of equal cost it finds another."""

    name: ClassVar[str] = ""

    def solve(self, moment: Moment) -> Floats:
        """Shares of shuffled jobs on shuffled types, put back."""
        job, kind = (moment.random.sample(range(n), n) for n in moment.speed.shape)
        both, share = np.ix_(job, kind), np.empty_like(moment.speed)
        alone = {name: getattr(moment, name)[job] for name in ("job", "gpus", "left", "waited")}
        moved = replace(moment, **alone, size=moment.size[kind], speed=moment.speed[both], before=moment.before[both])
        share[both] = super().solve(moved)
        return share


class TiltedToFast(FinishTime):
    """Only the worst ratio is as small as can be, other jobs' shares are what a solver returns: here the fast types."""

    name: ClassVar[str] = ""

    def solve(self, moment: Moment) -> Floats:
        """A solution that is as good to a thousandth, with more time on fast types."""
        return self._tilted(moment, moment.speed / moment.speed.max(axis=1, keepdims=True))

    def _tilted(self, moment: Moment, weight: Floats) -> Floats:
        program, cost = ratio_program(moment, moment.speed)
        cost[: weight.size] = -TILT * weight.ravel()
        return program.minimise(cost)


class TiltedAtRandom(TiltedToFast):
    """The same with weights that are drawn."""

    name: ClassVar[str] = ""

    def solve(self, moment: Moment) -> Floats:
        """One that is as good to a thousandth, any."""
        k, kinds = moment.speed.shape
        return self._tilted(moment, np.array([moment.random.random() for _ in range(k * kinds)]).reshape(k, kinds))


MEASURES: dict[str, Callable[[Callable[[str], Floats], str], float]] = {
    "mean_jct_s": lambda run, policy: float(run(policy)[FIRST:LAST].mean()),
    "mean_jct_h": lambda run, policy: float(run(policy)[FIRST:LAST].mean()) / 3600,
    "mean_ftf_vs_isolated": lambda run, policy: float((run(policy) / run("isolated"))[FIRST:LAST].mean()),
}
OF_THE_NOTEBOOK = ("mean_jct_h", "mean_ftf_vs_isolated")
BOUNDS = {"mean_jct_s": 5e-4, "mean_jct_h": 0.01, "mean_ftf_vs_isolated": 0.015}


@cache
def _completion_times(
    folder: Path, policy: str, *, seed: int, gap: float, earlier: bool, order: int | None = None
) -> Floats:
    jobs, speed = read_jobs(folder, seed, gap, earlier=earlier)
    cluster = Cluster.parse("v100:36,p100:36,k80:36")
    experiments = {SHUFFLED: AlloxShuffled, OTHERWISE[0]: TiltedToFast, OTHERWISE[1]: TiltedAtRandom}
    built = experiments[policy]() if policy in experiments else Policy.build(policy, **AS_PUBLISHED.get(policy, {}))
    drawn = seed if order is None else order
    pairs = read_pairs(folder, seed, earlier=earlier) if isinstance(built, Shares) and built.packs else None
    return simulate(jobs, cluster, built, speed=speed, pairs=pairs, last=LAST, seed=drawn).jct


def read_pairs(folder: Path, seed: int, *, earlier: bool = False) -> JobPairs:
    """How fast the jobs of a seed run in pairs; `earlier` as for `read_jobs`."""
    kind = _drawn(folder, seed, earlier)["job_type_index"]
    table = pd.read_parquet(folder / "pair_throughputs.parquet")
    a, b = table["job_type_index_a"].to_numpy(), table["job_type_index_b"].to_numpy()
    on = table["device"].map({"v100": 0, "p100": 1, "k80": 2}).to_numpy()
    speed = np.zeros((a.max() + 1, a.max() + 1, 3, 2))
    speed[a, b, on] = table[["steps_per_s_a", "steps_per_s_b"]].to_numpy()
    return JobPairs(kind.to_numpy(), speed)


def _alone(folder: Path) -> Floats:
    """(T, 3) steps per second of a job of each type alone."""
    table = pd.read_parquet(folder / "throughputs.parquet").pivot(
        index="job_type_index", columns="device", values="steps_per_s"
    )
    return table[["v100", "p100", "k80"]].to_numpy()


def _drawn(folder: Path, seed: int, earlier: bool) -> pd.DataFrame:
    """The jobs of a seed in order."""
    frame = pd.read_parquet(folder / "jobs.parquet").query("seed == @seed").sort_values("job")
    if not earlier:
        return frame
    types = pd.read_parquet(folder / "throughputs.parquet").drop_duplicates("job_type_index")
    names: list[str] = types.sort_values("job_type_index")["job_type"].tolist()
    order = list(range(len(names)))
    order.insert(next(k for k, name in enumerate(names) if name.startswith("LM ")), order.pop(names.index("A3C")))
    kind = np.array(order)[frame["job_type_index"].to_numpy()]
    return frame.assign(job_type_index=kind, steps=frame["duration_on_v100_s"] * _alone(folder)[kind, 0])


def read_jobs(folder: Path, seed: int, gap: float, *, earlier: bool = False) -> tuple[Jobs, Floats]:
    """The jobs of a seed at a mean gap in seconds, and their steps per second on each type.

    A job's type is drawn by its place in a list. The notebook's logs are older than a commit of August 2020 by which
    A3C went behind the models of language and recommendation in that list: `earlier` has it before them.
    """
    frame = _drawn(folder, seed, earlier)
    submit = np.concatenate([[0.0], np.cumsum(frame["unit_gap"].to_numpy()[:-1] / (1 / gap))])
    one = np.ones(len(frame))
    jobs = Jobs(frame["job"].to_numpy().astype(str), submit, one.astype(np.int64), frame["steps"].to_numpy(float), one)
    return jobs, _alone(folder)[frame["job_type_index"].to_numpy()]
