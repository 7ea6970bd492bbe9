"""`python tests/simulator/random_nodes.py --runs 10000`: no policy loses a job on random nodes.

Nodes are of any size and type, submissions fall on whole minutes, jobs are as large as a type, some fail.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from mfcp.errors import MfcpError
from mfcp.registry import import_members
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.event_log import stretches
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.outcome import Outcome
from mfcp.simulator.placement.machines import Placement
from mfcp.simulator.policies.base import Policy
from mfcp.simulator.policies.colocating import Colocating
from mfcp.simulator.policies.deciding import Deciding
from mfcp.simulator.policies.hosting import Hosting
from mfcp.simulator.simulation import import_policies, simulate

import_policies()
import_members("mfcp.simulator.placement")
POLICIES = sorted(Policy.members)
SHARED = ("fifo", "sjf", "qssf")  # the policies that go with a placement
COLOCATING = tuple(name for name in POLICIES if issubclass(Policy.members[name], Colocating))
ONE_TYPE = tuple(name for name, policy in Policy.members.items() if getattr(policy, "instead", ""))


def drawn(seed: int) -> tuple[Jobs, Cluster, str, str, int]:
    """Jobs, a cluster, a policy, a placement, and how often a job is tried again."""
    rng = np.random.default_rng(seed)
    name = POLICIES[rng.integers(len(POLICIES))]
    kinds = 1 if name in ONE_TYPE else rng.integers(1, 4)
    size, kind = rng.choice([1, 2, 3, 4, 8], rng.integers(1, 7)), rng.integers(0, kinds, 8)
    known, kind = np.unique(kind[: len(size)], return_inverse=True)
    cluster = Cluster(size, kind, tuple(f"type{k}" for k in known))
    placement = "first" if name not in SHARED else rng.choice([*sorted(set(Placement.members)), "first", "best"])
    shares = placement in Placement.members
    most, n = int(size.max()) if shares else cluster.largest(), rng.integers(1, 11)
    submit = np.sort(rng.integers(0, 5, n) * 60.0)
    gpus, duration = rng.integers(1, most + 1, n), rng.choice([30.0, 60.0, 60.0, 240.0, 1000.0], n)
    gpus = np.ones(n, np.int64) if Policy.members[name].clock == "rounds" else gpus
    late = rng.choice([0.9, 1.5, 4.0, *[np.inf] * (2 * (name in COLOCATING))], n)
    jobs = Jobs.simple(
        submit, gpus, duration, deadline=submit + duration * late,
        stages=duration[:, None] * rng.dirichlet([0.5] * 3, n),
        success=rng.choice([1.0, 1.0, 0.7], n), overhead=rng.choice([0.0, 5.0], n),
        user=rng.choice(["ann", "bob"], n),
        milli=np.where((gpus == 1) & (rng.random(n) < 0.5), 300, 1000) if shares else np.full(n, 1000),
    )  # fmt: skip
    return jobs, cluster, name, str(placement), int(rng.integers(0, 4))


def check(outcome: Outcome, policy: str, shares: bool) -> None:
    """Every job has an end or a reason, nothing ends early, and what runs fits.

    Raises:
        AssertionError: one of these is not so.
    """
    jobs, cluster = outcome.jobs, outcome.cluster
    why = outcome.unfinished()
    assert len(why["never_ends"]) == 0, f"{policy}: jobs {why['never_ends']} never end"
    done = ~np.isnan(outcome.finished)
    assert done.sum() + len(why["declined"]) + len(why["given_up"]) == len(jobs.id)
    if not issubclass(Policy.members[policy], (Deciding, Hosting)):  # whose jobs change their size
        assert (outcome.executed[done] >= jobs.duration[done] * (1 - 1e-9)).all(), f"{policy}: jobs end early"
    counts = outcome.log["event"].value_counts()
    ends = counts["finished"] + counts["failed"] + counts["stopped"] + counts["given_up"]
    assert counts["started"] == ends, f"{policy}: {counts['started']} starts, {ends} ends"
    held = stretches(outcome.log)
    node = held["node"].to_numpy()
    kind = cluster.type[node] if Policy.members[policy].clock in ("events", "colocations", "hosts") else node
    gpus = held["gpus"].to_numpy() * (jobs.milli[held["job"]] / 1000 if shares else 1.0)
    moments = np.unique(held["start_s"])
    runs = (held["start_s"].to_numpy() <= moments[:, None] + 1e-9) & (
        held["end_s"].to_numpy() > moments[:, None] + 1e-6
    )
    for k, there in enumerate(cluster.by_type):
        used = (runs * (gpus * (kind == k))).sum(axis=1)
        there *= getattr(Policy.members[policy], "together", 1)
        assert used.max(initial=0) <= there + 1e-6, f"{policy}: {used.max()} of {there} {cluster.types[k]} are held"


def run(seed: int) -> str:
    """One run, and one of its largest job alone; the policy's name."""
    jobs, cluster, name, placement, retries = drawn(seed)
    policy = Policy.build(name)
    outcome = simulate(jobs, cluster, policy, placement=placement, retries=retries, seed=seed)
    shares = placement in Placement.members
    check(outcome, name, shares)
    largest = jobs.gpus[[jobs.gpus.argmax()]]
    alone = Jobs.simple(
        np.zeros(1),
        largest,
        np.full(1, 100.0),
        deadline=np.full(1, 1e6),
        stages=np.full((1, 3), 30.0),
        user=jobs.user[:1],
    )
    ends = simulate(alone, cluster, policy, placement=placement).finished
    assert np.isfinite(ends).all(), f"{name}: a job of {alone.gpus[0]} does not run on {cluster.size} ({placement})"
    return name


def main() -> None:
    """Count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    options = parser.parse_args()
    before, wrong, done = time.perf_counter(), 0, dict.fromkeys(POLICIES, 0)
    for seed in range(options.runs):
        try:
            done[run(seed)] += 1
        except (AssertionError, MfcpError) as error:
            wrong += 1
            print(f"run {seed}: {error}", flush=True)
    least = min(done, key=lambda name: done[name])
    print(f"{options.runs} runs of {len(POLICIES)} policies ({least} least often, {done[least]} times), {wrong} wrong, "
          f"{time.perf_counter() - before:.0f} s")  # fmt: skip


if __name__ == "__main__":
    main()
