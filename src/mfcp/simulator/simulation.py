"""One run: jobs on a cluster under a policy."""

from __future__ import annotations

import numpy as np

from mfcp.arrays import Floats
from mfcp.errors import DataError, SettingsError
from mfcp.registry import import_members
from mfcp.simulator.beliefs import Belief, Oracle
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.configurations import Configurations
from mfcp.simulator.deciding_run import run_deciding
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.ordering_run import run_ordering
from mfcp.simulator.outcome import Outcome
from mfcp.simulator.policies.base import Ordering, Policy, Shares, View
from mfcp.simulator.policies.deciding import Deciding, Scale
from mfcp.simulator.semantics import PRESETS, Events, Rounds, Semantics, Slots
from mfcp.simulator.sharing_run import run_sharing

FAMILIES = tuple(f"mfcp.simulator.policies.{name}" for name in ("ordering", "sharing", "planning", "scaling"))


def import_policies() -> None:
    """Make every policy known by name."""
    for package in FAMILIES:
        import_members(package)


def simulate(
    jobs: Jobs,
    cluster: Cluster,
    policy: Policy,
    *,
    semantics: Semantics | None = None,
    belief: Belief = Oracle(),  # noqa: B008 - frozen
    speed: Floats | None = None,
    configurations: Configurations | None = None,
    placement: str = "first",
    retries: int = 3,
    seed: int = 0,
) -> Outcome:
    """Run all jobs to their end.

    Args:
        jobs: what is submitted, and what is true of it.
        cluster: where they run.
        policy: which job runs when.
        semantics: what passes time and what things cost; `plain`, `gavel` or `slots` of `PRESETS` if None, as the
            policy needs.
        belief: what the policy knows of durations.
        speed: (n, K) of each job on each type of accelerator, 0 where it does not run; all 1 if None.
        configurations: how jobs can run, for policies that choose it; if None, jobs are rigid for plans, and grow with
            accelerators to the power 0.9 for policies of sizes.
        placement: which node of those with room a job takes: the `first`, the `best` fit, or the `fastest`; not in
            rounds.
        retries: how often a failed job starts again from nothing; after that it is given up.
        seed: of beliefs, failures and whatever a policy draws.

    Returns:
        Who started and ended when, and everything that happened.

    Raises:
        DataError: a job that the cluster can never run, or failures in rounds.
        SettingsError: the policy lacks what it uses, or does not fit the semantics.
    """
    speeds = np.ones((len(jobs.id), len(cluster.types))) if speed is None else speed
    _check_fits(jobs, cluster, speeds)
    streams = np.random.SeedSequence(seed).spawn(2)
    expected = belief.durations(jobs, np.random.default_rng(streams[0]))
    view = View.of(jobs, cluster, expected)
    policy.check(view)
    if isinstance(policy, Ordering) and isinstance(terms := semantics or PRESETS["plain"], Events):
        left = _failures(jobs, retries, np.random.default_rng(streams[1]))
        return run_ordering(jobs, cluster, policy, terms, view, speeds, left, placement)
    if isinstance(policy, Shares) and isinstance(rounds := semantics or PRESETS["gavel"], Rounds):
        if (jobs.success < 1).any():
            raise DataError("jobs that may fail cannot run in rounds; choose an ordering policy, or leave success out")
        return run_sharing(jobs, cluster, policy, rounds, view, speeds, seed)
    if isinstance(policy, Deciding) and isinstance(slots := semantics or PRESETS["slots"], Slots):
        if (jobs.success < 1).any():
            raise DataError("jobs that may fail cannot change their size; choose an ordering policy")
        elastic = isinstance(policy, Scale)
        ways = Configurations.elastic(jobs, cluster) if elastic else Configurations.rigid(jobs, cluster, speeds)
        return run_deciding(jobs, cluster, policy, slots, view, configurations or ways)
    raise SettingsError(f"policy '{policy.name}' does not run under {type(semantics).__name__.lower()}; leave them out")


def _check_fits(jobs: Jobs, cluster: Cluster, speed: Floats) -> None:
    most = np.where(speed > 0, cluster.by_type, 0).max(axis=1, initial=0)
    for job in np.flatnonzero(jobs.gpus > most)[:1]:
        raise DataError(
            f"job {jobs.id[job]} asks for {jobs.gpus[job]} accelerators; the cluster has at most {most[job]} of one "
            "type that it runs on; leave it out or take a larger cluster"
        )


def _failures(jobs: Jobs, retries: int, rng: np.random.Generator) -> Floats:
    """(n, attempts) iterations that are left when an attempt fails, at a uniform point; -1 where it succeeds."""
    if (jobs.success >= 1).all():
        return np.empty((len(jobs.id), 0))
    shape = (len(jobs.id), retries + 1)
    fails = rng.random(shape) >= jobs.success[:, None]
    left: Floats = np.where(fails, jobs.iterations[:, None] * rng.random(shape), -1.0)
    return left
