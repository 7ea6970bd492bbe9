"""A run of an ordering policy on the clock of events."""

from __future__ import annotations

import numpy as np

from mfcp.arrays import Floats, Ints
from mfcp.simulator.clocks import events, state
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.outcome import Outcome
from mfcp.simulator.policies.base import Instant, Keys, Ordering, View
from mfcp.simulator.semantics import Events

SKIPS = {"any": 0, "nobody": 1, "backfill": 2}
FITS = {"first": 0, "best": 1, "fastest": 2}


def run_ordering(
    jobs: Jobs, cluster: Cluster, policy: Ordering, semantics: Events, view: View, speed: Floats, left: Floats,
    placement: str,
) -> Outcome:  # fmt: skip
    """Run all jobs to their end; see `mfcp.simulator.simulation.simulate`.

    Args:
        left: (n, attempts) iterations that are left when an attempt fails; negative where it succeeds.
    """
    work = state.Work(jobs.submit, jobs.gpus, jobs.iterations, jobs.step, speed, left, jobs.overhead)
    ranking, terms = _ranking(jobs, policy.keys(view), view.expected), _terms(semantics, policy, placement)
    nodes = state.Nodes(cluster.size, cluster.type, cluster.size.copy())
    now = state.fresh_state(work, cluster.accelerators)
    log = state.fresh_log(8 * len(jobs.id) + 64)
    values = policy.watch(view)
    while (code := events.run(work, ranking, terms, nodes, now, log, policy.asks)) != events.FINISHED_ALL:
        if code == events.LOG_FULL:
            log = state.longer_log(log, int(now.counts[state.LOGGED]))
            continue
        active = now.order[: now.counts[state.ORDERED]]
        active = active[now.status[active] != state.DONE]
        ranking.value[active] = values(_instant(work, ranking, now, active))
        events.decide(work, ranking, terms, nodes, now, log)
    return Outcome.of_events(jobs, cluster, now, log)


def _instant(work: state.Work, ranking: state.Ranking, now: state.State, active: Ints) -> Instant:
    running = now.status[active] == state.RUNNING
    clock = float(now.clock[0])
    executed = now.executed[active] + np.where(running, clock - now.since[active], 0.0)
    return Instant(clock, active, events.believed(work, ranking, now, active), executed)


def _ranking(jobs: Jobs, keys: Keys, expected: Floats) -> state.Ranking:
    known = np.where(np.isnan(expected), jobs.duration, expected)  # of no use to a policy that does not ask for it
    weight = np.broadcast_to(np.float64(keys.weight), len(jobs.id)).astype(float)
    rank = np.arange(len(keys.limits) + 1.0) if keys.rank is None else keys.rank.astype(float)
    offset = (known - jobs.duration) / jobs.step
    return state.Ranking(keys.value.astype(float), weight, offset, keys.limits.astype(float), rank)


def _terms(semantics: Events, policy: Ordering, placement: str) -> state.Terms:
    return state.Terms(
        preempts=policy.preempts, charges_every_event=semantics.charge == "every event",
        first_is_free=semantics.charge == "resumes", end_has_charge=semantics.end_has_charge,
        whole_limits=semantics.whole_limits, demoted_last=semantics.demoted == "last",
        running_first=semantics.running_first, by_submission=semantics.ties == "submission",
        sticky=semantics.moves == "stays", skip=SKIPS[policy.skip], fit=FITS[placement],
    )  # fmt: skip
