"""ElasticFlow (Gu et al., ASPLOS 2023): jobs with deadlines, elastic and not, Figs. 8b and 10.

Their simulator has a slot: 60 seconds in Fig. 8b, 240 in Fig. 10. Earliest deadline first and ElasticFlow decide once
in a slot, and under the latter a job holds what it has to the end of one. Themis steps from slot to slot: what is
submitted waits for the next, and a job ends with its own. Tiresias follows events. Gandiva decides at submissions, and
in slots once there are no more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.published.results import Number, Trial, tried
from mfcp.arrays import Floats, Ints
from mfcp.progress import progress
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.configurations import Configurations
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.outcome import Outcome
from mfcp.simulator.policies.base import Policy
from mfcp.simulator.semantics import Semantics, preset
from mfcp.simulator.simulation import import_policies, simulate

RATIO, SECONDS = {"edf": 0.02, "tiresias": 0.02, "elasticflow": 0.02, "themis": 0.05, "gandiva": 0.05}, 0.01
METRICS = ("deadline_satisfactory_ratio", "makespan_s", "mean_jct_s")
PER_NODE = 8
SIZES = 2 ** np.arange(7)
LIMITS = (3250.0, 7200.0)  # of Tiresias, accelerator-seconds
LARGE = 256  # accelerators from which a charge is 7 seconds and a restart 47
NOT_YET = {"chronus": "a mixed integer program whose solver is not free"}
REPEATED = {
    "edf": {"cluster01": 298, "cluster02": 1414, "cluster03": 309},
    "gandiva": {"cluster01": 259, "cluster02": 1848, "cluster03": 1001},
    "tiresias": {"cluster01": 787, "cluster02": 2814, "cluster03": 1298, "philly": 284},
    "elasticflow": {"cluster01": 1352},
}
"""Deadlines of Fig. 8b that their program meets on the shared files: run by us once, commit 04a0109a, as their script
does, with the traces written in its columns; but Philly on the nodes of `BEFORE`."""
BEFORE = {"philly": 4}
"""Nodes that their script had until that commit, of 2024; with those, the published numbers of Philly come out."""


@dataclass(frozen=True)
class _Trace:
    """Jobs of one trace, their rates at every size, and where they ran."""

    jobs: Jobs
    rate: Floats
    most: Ints
    nodes: int
    slot_s: float

    @property
    def gpus(self) -> int:
        return self.nodes * PER_NODE

    def ways(self, *, elastic: bool) -> Configurations:
        """Every size that the table has; ElasticFlow goes no further than a model's largest."""
        rate = np.where(self.most[:, None] >= SIZES, self.rate, 0.0) if elastic else self.rate
        return Configurations(SIZES, np.zeros(len(SIZES), np.int64), rate, np.zeros(len(SIZES)))


def numbers(folder: Path, _: float) -> Iterator[Number]:
    """All published numbers of the traces that are there, and how many jobs of Fig. 10 end when theirs do."""
    import_policies()
    expected = json.loads((folder / "expected.json").read_text())["results"]
    with progress("elasticflow", len(expected)) as advance:
        for row in expected:
            number = _number(folder, row)
            yield number
            if (row["trace"], row["metric"]) == ("fig10_trace", "makespan_s") and number.ours is not None:
                yield _ends(folder, row)
            advance()


def _number(folder: Path, row: dict[str, object]) -> Number:
    policy, trace, metric = str(row["policy"]), str(row["trace"]), str(row["metric"])
    what, value = (policy, trace, metric), float(row["value"])
    if policy not in RATIO:
        return Number(*what, value, None, None, NOT_YET.get(policy, "no such policy here"))
    if metric not in METRICS or not (folder / f"{trace}.parquet").exists():
        return Number(*what, value, None, None, "no such metric or trace here")
    own = _read(folder, trace, int(row["nodes"]), float(row["slot_s"]))
    found = _metric(own, _run(own, policy), metric)
    if metric == "deadline_satisfactory_ratio":
        number = Number(*what, value, found, RATIO[policy], unit="ratio")
    else:
        number = Number(*what, value, found, SECONDS)
    met, nodes = REPEATED.get(policy, {}).get(trace), BEFORE.get(trace)
    on = f", on {nodes} nodes" if nodes else ""
    if met is not None:
        return replace(number, trial=Trial(f"their program on these files{on}", (met / len(own.jobs.id),)))
    return tried(number, _trial(own, policy, metric, nodes))


def _trial(own: _Trace, policy: str, metric: str, nodes: int | None) -> Callable[[], Trial] | None:
    """What may have been otherwise: the nodes, or whether an event charges all that run."""
    if nodes is not None:
        return lambda: Trial(f"on {nodes} nodes", (_metric(own, _run(replace(own, nodes=nodes), policy), metric),))
    return partial(_charged, own, policy, metric) if policy in ("tiresias", "themis") else None


def _charged(own: _Trace, policy: str, metric: str) -> Trial:
    found = tuple(_metric(own, _run(own, policy, charged=charged), metric) for charged in (False, True))
    return Trial("charged at no event, or at every one", found)


def _ends(folder: Path, row: dict[str, object]) -> Number:
    theirs = pd.read_csv(folder / "fig10_jobs.csv")
    theirs = theirs[theirs["policy"] == row["policy"]]
    own = _read(folder, str(row["trace"]), int(row["nodes"]), float(row["slot_s"]))
    ends = theirs.set_index("job")["end_time_s"].reindex(own.jobs.id.astype(np.int64)).to_numpy(float)
    near = np.abs(_run(own, str(row["policy"])).finished - ends) <= own.slot_s
    policy, trace = str(row["policy"]), str(row["trace"])
    return Number(policy, trace, "ends within a slot", 1.0, float(near.mean()), 0.05, unit="ratio")


def _metric(own: _Trace, outcome: Outcome, metric: str) -> float:
    """From the trace's own submissions: a slot may have moved those of the run."""
    ends = outcome.finished
    if metric == "deadline_satisfactory_ratio":
        return float((ends <= own.jobs.deadline).mean())
    return float(np.nanmax(ends) if metric == "makespan_s" else np.nanmean(ends - own.jobs.submit))


@cache
def _read(folder: Path, trace: str, nodes: int, slot_s: float) -> _Trace:
    frame = pd.read_parquet(folder / f"{trace}.parquet").sort_values(["submit_time_s", "job"], kind="stable")
    jobs = Jobs(
        frame["job"].to_numpy().astype(str), frame["submit_time_s"].to_numpy(float),
        frame["num_gpus"].to_numpy(np.int64), frame["iterations"].to_numpy(float),
        (frame["duration_s"] / frame["iterations"]).to_numpy(float), deadline=frame["deadline_s"].to_numpy(float),
    )  # fmt: skip
    table = pd.read_csv(folder / "throughputs.csv")
    table = table[table["gpu"] == "A100"].set_index(["model", "global_batch_size", "num_gpus"])["iterations_per_s"]
    known = table.fillna(0.0).to_dict()
    kinds = list(zip(frame["model"], frame["batch_size"], strict=True))
    rate = np.array([[known.get((*kind, size), 0.0) * (size <= kind[1]) for size in SIZES] for kind in kinds])
    return _Trace(jobs, rate, np.array([_largest(*kind) for kind in kinds]), nodes, slot_s)


def _largest(model: str, batch: int) -> int:
    """Accelerators that ElasticFlow gives a job at most."""
    small = {"deepspeech2": batch, "gpt2": 16 if batch == 128 else 32, "bert": 8 if batch == 64 else 16,
             "inception3": 16 if batch == 64 else 32}  # fmt: skip
    return small.get(model, 32 if batch == 64 else 64)


_KEPT: dict[tuple[int, int, str, bool], Outcome] = {}


def _run(own: _Trace, policy: str, *, charged: bool = False) -> Outcome:
    """The trace under a policy; a run is kept, for its other metrics."""
    key = (id(own.jobs), own.nodes, policy, charged)
    if key not in _KEPT:
        runs = {"edf": _edf, "elasticflow": _elastic, "tiresias": _tiresias, "themis": _themis, "gandiva": _gandiva}
        _KEPT[key] = runs[policy](own, charged)
    return _KEPT[key]


def _edf(own: _Trace, _: bool) -> Outcome:
    return simulate(
        own.jobs, Cluster.parse(str(own.gpus)), Policy.build("edf_widest", by="size"),
        semantics=preset("slots", slot_s=own.slot_s), configurations=own.ways(elastic=False),
    )  # fmt: skip


def _gandiva(own: _Trace, _: bool) -> Outcome:
    semantics = _terms(own, charge="every submission", layouts="none", ends="with a decision")
    policy = Policy.build("gandiva_groups", published=True)
    return simulate(own.jobs, Cluster.parse(f"{own.nodes}x{PER_NODE}"), policy, semantics=semantics)


def _elastic(own: _Trace, _: bool) -> Outcome:
    semantics = _terms(own)
    policy = Policy.build("elastic_flow", strict=True, slot_s=own.slot_s)
    return simulate(
        own.jobs, Cluster.parse(str(own.gpus)), policy, semantics=semantics, configurations=own.ways(elastic=True)
    )


def _tiresias(own: _Trace, charged: bool) -> Outcome:
    policy = Policy.build("las", limits=LIMITS, within="entry")
    semantics = preset("muri" if charged else "plain", running_first=True)
    jobs = _with_overhead(own) if charged else own.jobs
    return simulate(jobs, Cluster.parse(str(own.gpus)), policy, semantics=semantics)


def _themis(own: _Trace, charged: bool) -> Outcome:
    jobs = _with_overhead(own) if charged else own.jobs
    slots = np.ceil(jobs.duration / own.slot_s) * own.slot_s / jobs.iterations
    jobs = replace(jobs, submit=np.ceil(jobs.submit / own.slot_s) * own.slot_s, step=slots)
    policy = Policy.build("themis", unit="iterations")
    return simulate(jobs, Cluster.parse(f"{own.nodes}x{PER_NODE}"), policy, semantics=preset("muri"))


def _terms(own: _Trace, **changes: str) -> Semantics:
    """Their slots and charges."""
    large: dict[str, object] = {"charge_s": 7.0, "restart_s": 47.0} if own.gpus >= LARGE else {}
    return preset("elasticflow", slot_s=own.slot_s, restart_every=int(own.slot_s), **large, **changes)


def _with_overhead(own: _Trace) -> Jobs:
    """Every job with what a start costs it."""
    start = (7.0 if own.gpus >= LARGE else 2.0) + 2.0 * (np.log2(own.jobs.gpus) + 1.0)
    return replace(own.jobs, overhead=start)
