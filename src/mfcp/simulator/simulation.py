"""One run: jobs on a cluster under a policy."""

from __future__ import annotations

from typing import Any

import numpy as np

from mfcp.arrays import Floats
from mfcp.errors import DataError
from mfcp.simulator.beliefs import Belief, Oracle
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.outcome import Outcome
from mfcp.simulator.policies.base import Keys, Ordering, View
from mfcp.simulator.semantics import PRESETS, Semantics

SKIPS = {"any": 0, "nobody": 1, "backfill": 2}
FITS = {"first": 0, "best": 1, "fastest": 2}


def simulate(
    jobs: Jobs,
    cluster: Cluster,
    policy: Ordering,
    *,
    semantics: Semantics = PRESETS["plain"],
    belief: Belief = Oracle(),  # noqa: B008 - frozen
    speed: Floats | None = None,
    placement: str = "first",
    retries: int = 3,
    seed: int = 0,
) -> Outcome:
    """Run all jobs to their end.

    Args:
        jobs: what is submitted, and what is true of it.
        cluster: where they run.
        policy: which job runs when.
        semantics: what events cost.
        belief: what the policy knows of durations.
        speed: (n, K) of each job on each type of accelerator, 0 where it does not run; all 1 if None.
        placement: which node of those with room a job takes: the `first`, the `best` fit, or the `fastest`.
        retries: how often a failed job starts again from nothing; after that it is given up.
        seed: of beliefs and failures.

    Returns:
        Who started and ended when, and everything that happened.

    Raises:
        DataError: a job that the cluster can never run.
        SettingsError: the policy lacks what it uses.
    """
    from mfcp.simulator.clocks import events, state

    speeds = np.ones((len(jobs.id), len(cluster.types))) if speed is None else speed
    _check_fits(jobs, cluster, speeds)
    streams = np.random.SeedSequence(seed).spawn(2)
    expected = belief.durations(jobs, np.random.default_rng(streams[0]))
    view = View.of(jobs, cluster, expected)
    policy.check(view)
    work = state.Work(
        jobs.submit, jobs.gpus, jobs.iterations, jobs.step, speeds,
        _failures(jobs, retries, np.random.default_rng(streams[1])), jobs.overhead,
    )  # fmt: skip
    ranking, terms = _ranking(jobs, policy.keys(view), expected), _terms(semantics, policy, placement)
    nodes = state.Nodes(cluster.size, cluster.type, cluster.size.copy())
    now = state.fresh_state(work, cluster.accelerators)
    log = state.fresh_log(8 * len(jobs.id) + 64)
    while (code := events.run(work, ranking, terms, nodes, now, log, policy.asks)) != events.FINISHED_ALL:
        if code == events.LOG_FULL:
            log = _longer(log, int(now.counts[state.LOGGED]))
            continue
        active = now.order[: now.counts[state.ORDERED]]
        active = active[now.status[active] != state.DONE]
        left = events.believed(work, ranking, now, active)
        ranking.value[active] = policy.values(view, float(now.clock[0]), active, left)
        events.decide(work, ranking, terms, nodes, now, log)
    return Outcome.of(jobs, cluster, now, log)


def _ranking(jobs: Jobs, keys: Keys, expected: Floats) -> Any:
    from mfcp.simulator.clocks.state import Ranking

    known = np.where(np.isnan(expected), jobs.duration, expected)  # of no use to a policy that does not ask for it
    weight = np.broadcast_to(np.float64(keys.weight), len(jobs.id)).astype(float)
    rank = np.arange(len(keys.limits) + 1.0) if keys.rank is None else keys.rank.astype(float)
    offset = (known - jobs.duration) / jobs.step
    return Ranking(keys.value.astype(float), weight, offset, keys.limits.astype(float), rank)


def _terms(semantics: Semantics, policy: Ordering, placement: str) -> Any:
    from mfcp.simulator.clocks.state import Terms

    return Terms(
        preempts=policy.preempts, charges_every_event=semantics.charge == "every event",
        first_is_free=semantics.charge == "resumes", end_has_charge=semantics.end_has_charge,
        whole_limits=semantics.whole_limits, demoted_last=semantics.demoted == "last",
        running_first=semantics.running_first, by_submission=semantics.ties == "submission",
        sticky=semantics.moves == "stays", skip=SKIPS[policy.skip], fit=FITS[placement],
    )  # fmt: skip


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


def _longer(log: Any, used: int) -> Any:
    """The same log with twice the room."""
    from mfcp.simulator.clocks.state import fresh_log

    longer = fresh_log(2 * len(log.time))
    for new, old in zip(longer, log, strict=True):
        new[:used] = old[:used]
    return longer
