"""One run: jobs on a cluster under a policy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mfcp.arrays import Floats
from mfcp.errors import DataError, SettingsError
from mfcp.registry import import_members
from mfcp.simulator.batches import Batches
from mfcp.simulator.beliefs import Durations, LossDurations, TrueDurations
from mfcp.simulator.clocks.colocations import run_colocations
from mfcp.simulator.clocks.decisions import run_decisions
from mfcp.simulator.clocks.events import FITS, run_events
from mfcp.simulator.clocks.hosted import run_hosted
from mfcp.simulator.clocks.hosted_parts import HostedParts
from mfcp.simulator.clocks.packed_rounds import PackedRun
from mfcp.simulator.clocks.rounds import RoundsRun
from mfcp.simulator.clocks.shared import run_shared
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.configurations import Configurations
from mfcp.simulator.course import Course
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.luck import draw_failures
from mfcp.simulator.outcome import Outcome
from mfcp.simulator.pairs import JobPairs
from mfcp.simulator.placement.machines import Placement
from mfcp.simulator.policies.base import Ordering, Policy, Shares, View
from mfcp.simulator.policies.colocating import Colocating
from mfcp.simulator.policies.deciding import Deciding
from mfcp.simulator.policies.hosting import Hosting
from mfcp.simulator.qore.training_losses import TrainingLosses
from mfcp.simulator.semantics import PRESETS, EventTerms, RoundTerms, Semantics, SlotTerms

_KINDS = ("ordering", "sharing", "planning", "scaling", "colocation", "on_hosts")
FAMILIES = tuple(f"mfcp.simulator.policies.{name}" for name in _KINDS)


def import_policies() -> None:
    """Make every policy known by name."""
    for package in FAMILIES:
        import_members(package)


# Over 60 lines: half of them say what the arguments are.
def simulate(
    jobs: Jobs,
    cluster: Cluster,
    policy: Policy,
    *,
    semantics: Semantics | None = None,
    belief: Durations = TrueDurations(),  # noqa: B008 - frozen
    speed: Floats | None = None,
    losses: TrainingLosses | None = None,
    configurations: Configurations | None = None,
    batches: Batches | None = None,
    pairs: JobPairs | None = None,
    placement: str = "first",
    retries: int = 3,
    last: int | None = None,
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
        losses: of training. A job ends when its own have converged; its duration is of all epochs that it may take.
        configurations: how jobs can run, for policies that choose it; if None, what the policy assumes: the
            accelerators that a job asks for, and under elastic policies other numbers too, whose speed is that of
            theirs to the power 0.9.
        batches: which batch sizes jobs take while they train; in rounds only.
        pairs: how fast two jobs run that share accelerators, for policies that pack; without, nothing is shared.
        placement: which node with room a job takes: the `first`, the `best` fit, the `fastest`, or a `Placement`, which
            puts it on one and knows parts of accelerators. On a clock of events only.
        retries: how often a failed job starts again from nothing; after that it is given up. Which attempts fail
            follows from a job's name and the seed, whatever else runs.
        last: row of a job; a run in rounds ends when all jobs up to it have ended.
        seed: of beliefs, failures and whatever a policy draws.

    Returns:
        When each job started and ended, and everything that happened.

    Raises:
        DataError: a job that the cluster can never run.
        SettingsError: the policy lacks what it uses, or does not fit the semantics or the placement.
        SolverError: the policy gives what there is not, or lets jobs wait for ever.
    """
    speeds = np.ones((len(jobs.id), len(cluster.types))) if speed is None else speed
    _check_fits(jobs, cluster, speeds)
    _check_clock(policy, batches, pairs, placement)
    allowed, told = jobs, None
    if losses is not None:
        jobs, told = _until_converged(jobs, losses, policy, belief, batches)
    rng = np.random.default_rng(np.random.SeedSequence(seed).spawn(1)[0])
    expected = allowed.duration if told else belief.durations(jobs, rng)
    fails = draw_failures(jobs.id, jobs.success, retries, seed)
    view = View.of(allowed, cluster, expected, told)
    policy.check(view)
    terms = semantics or PRESETS[DEFAULTS[policy.clock]]
    if isinstance(policy, Ordering) and isinstance(terms, EventTerms):
        if placement in FITS:
            return run_events(jobs, cluster, policy, terms, view, speeds, fails, placement)
        return run_shared(Course(jobs, cluster, expected, fails), policy, view, _placement(placement), speeds, seed)
    course = Course(jobs, cluster, expected, fails, told)
    if isinstance(policy, Shares) and isinstance(terms, RoundTerms):
        if policy.packs and pairs is not None:
            return PackedRun(course, policy, terms, speeds, seed, pairs).until(last)
        return RoundsRun(course, policy, terms, speeds, seed, batches).until(last)
    if isinstance(policy, Deciding) and isinstance(terms, SlotTerms):
        return run_decisions(course, policy, terms, configurations or policy.ways(jobs, cluster, speeds))
    if isinstance(policy, Colocating) and isinstance(terms, EventTerms):
        return run_colocations(course, policy, terms, speeds[:, 0])
    if isinstance(policy, Hosting) and terms == EventTerms():
        ways = configurations or Configurations.elastic(jobs, cluster, speeds)
        return run_hosted(course, policy, HostedParts.of(jobs, cluster, ways), seed)
    raise SettingsError(
        f"policy '{policy.name}' runs on a clock of {policy.clock}; choose semantics of {_names(policy)}"
    )


def _check_clock(policy: Policy, batches: Batches | None, pairs: JobPairs | None, placement: str) -> None:
    """What is given must be of use on the policy's clock."""
    if batches is not None and policy.clock != "rounds":
        raise SettingsError(f"batch sizes change in rounds only; '{policy.name}' runs on a clock of {policy.clock}")
    if batches is not None and pairs is not None:
        raise SettingsError("speeds of pairs are of jobs that keep their batch; give pairs or batches, not both")
    if placement != "first" and policy.clock != "events":
        raise SettingsError(
            f"placement '{placement}' is for a clock of events; '{policy.name}' runs on a clock of {policy.clock}: "
            "simulate it apart, without a placement"
        )


def _until_converged(
    jobs: Jobs, losses: TrainingLosses, policy: Policy, belief: Durations, batches: Batches | None
) -> tuple[Jobs, TrainingLosses | None]:
    """Jobs as long as they train, and the losses if beliefs are told from them, which not every policy can follow."""
    if batches is not None:
        raise SettingsError("losses are of epochs of one batch size; give losses or batches, not both")
    if isinstance(policy, Ordering) and policy.skip == "backfill" and isinstance(belief, LossDurations):
        raise SettingsError(
            f"belief 'losses' changes while jobs train, and '{policy.name}' reserves by an order that stays; take "
            "another policy, such as srsf, optimus, slaq or qore_dl, or another belief"
        )
    told = replace(losses, form=belief.form) if isinstance(belief, LossDurations) else None
    return replace(jobs, iterations=jobs.iterations * losses.ends), told


def _names(policy: Policy) -> str:
    """The presets of a policy's clock."""
    if policy.clock == "hosts":
        return DEFAULTS["hosts"]
    own = type(PRESETS[DEFAULTS[policy.clock]])
    return ", ".join(name for name, each in PRESETS.items() if type(each) is own)


def _placement(name: str) -> Placement:
    import_members("mfcp.simulator.placement")
    if name not in Placement.members:
        raise SettingsError(f"placement '{name}': known are {', '.join((*FITS, *sorted(Placement.members)))}")
    return Placement.build(name)


DEFAULTS = {"events": "plain", "rounds": "gavel", "decisions": "slots", "colocations": "plain", "hosts": "plain"}
"""Clock → its preset where none is asked for."""


def _check_fits(jobs: Jobs, cluster: Cluster, speed: Floats) -> None:
    if jobs.gpus.max(initial=0) <= cluster.by_type.min() and speed.min(initial=np.inf) > 0:
        return  # every job fits every type
    most = np.where(speed > 0, cluster.by_type, 0).max(axis=1, initial=0)
    for job in np.flatnonzero(jobs.gpus > most)[:1]:
        raise DataError(
            f"job {jobs.id[job]} asks for {jobs.gpus[job]} accelerators; the cluster has at most {most[job]} of one "
            "type that it runs on; leave it out or take a larger cluster"
        )
