"""The clock of events: time jumps from submission to end to demotion; at each, jobs are ordered and chosen.

Everything that falls on one instant is one event: ends first, then submissions. The loops are compiled, see
`mfcp.simulator.kernels`; which of three runs depends on what the order of jobs is like.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mfcp.arrays import Floats, Ints
from mfcp.errors import SettingsError
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.kernels import backfilling, queueing, ranking
from mfcp.simulator.kernels import books as columns
from mfcp.simulator.kernels.books import Books, ClockTerms, fresh_books, longer_log
from mfcp.simulator.kernels.progress import FINISHED_ALL, LOG_FULL, believed_of
from mfcp.simulator.outcome import Outcome
from mfcp.simulator.policies.base import Instant, Keys, Ordering, View
from mfcp.simulator.semantics import EventTerms

SKIPS = {"any": columns.ANY, "nobody": columns.NOBODY, "backfill": columns.BACKFILL}
Values = Callable[[Instant], Floats]
LOG_ROWS = 8  # a job, to begin with: three of most
FITS = {"first": columns.FIRST, "best": columns.BEST, "fastest": columns.FASTEST}


def run_events(
    jobs: Jobs, cluster: Cluster, policy: Ordering, semantics: EventTerms, view: View, speed: Floats, fails: Floats,
    placement: str,
) -> Outcome:  # fmt: skip
    """Run all jobs to their end; see `mfcp.simulator.simulation.simulate`.

    Args:
        fails: (n, attempts) part of a job that is left when an attempt fails; negative where it succeeds.

    Raises:
        SettingsError: the policy gives keys that are no numbers, as of unknown durations.
    """
    keys = policy.keys(view)
    terms, weight = _terms(semantics, policy, keys, placement), np.full(len(jobs.id), keys.weight, float)
    values = policy.watch(view) if policy.asks else None
    if view.losses is not None and values is None and weight.any():  # what is left is told anew at every event
        own, weight = weight, np.zeros_like(weight)
        values = lambda instant: keys.value[instant.active] + own[instant.active] * instant.left  # noqa: E731
    books = _books(jobs, cluster, policy, view, keys.value, weight, speed, fails)
    policy.check_known(first := keys.before_start(view.expected))
    _check_promotes(jobs, keys)
    if policy.skip == "backfill" and not policy.preempts:
        policy.check_known(view.expected)
        books = _backfill(policy, terms, books, first)
    elif policy.preempts and (_has_history(semantics) or terms.promote < np.inf):
        books = _ranked(policy, terms._replace(by_submission=semantics.ties == "submission"), books, view, values)
    else:
        books = _by_key(policy, terms, books, view, values)
    return _outcome(jobs, cluster, books)


def _check_promotes(jobs: Jobs, keys: Keys) -> None:
    """A job must get somewhere before it leaves the first level, or jobs promoted in turn never end."""
    if keys.promote == np.inf or not len(keys.limits):
        return
    for job in np.flatnonzero(jobs.overhead * jobs.gpus >= keys.limits[0])[:1]:
        raise SettingsError(
            f"job {jobs.id[job]} pays {jobs.overhead[job] * jobs.gpus[job]:g} accelerator-seconds at a start, and "
            f"leaves the first level at {keys.limits[0]:g}: promoted over and over, it never ends; raise limits[0]"
        )


def _backfill(policy: Ordering, terms: ClockTerms, books: Books, keys: Floats) -> Books:
    if policy.asks or len(terms.limits):
        raise SettingsError(f"policy '{policy.name}': backfilling needs an order that stays; take skip=any")
    jobs = books.jobs
    jobs["key"][np.argsort(keys, kind="stable")] = np.arange(len(jobs))
    books.lists[columns.QUEUE] = np.lexsort((jobs["key"], jobs["kind"]))
    jobs["mark"][books.lists[columns.QUEUE]] = np.arange(len(jobs))
    books = books._replace(tree=np.full(books.kinds["root"][-1], np.inf))
    while backfilling.run(books, terms) == LOG_FULL:
        books = longer_log(books)
    return books


def _by_key(policy: Ordering, terms: ClockTerms, books: Books, view: View, values: Values | None) -> Books:
    given, run = False, queueing.run_preempting if policy.preempts else queueing.run
    while (code := run(books, terms, values is not None, given)) != FINISHED_ALL:
        given = code != LOG_FULL
        if not given or values is None:
            books = longer_log(books)
            continue
        status = books.jobs["status"]
        _ask(policy, values, books, np.flatnonzero((status == columns.WAITING) | (status == columns.RUNNING)), view)
        queueing.reorder(books, terms)
    return books


def _ranked(policy: Ordering, terms: ClockTerms, books: Books, view: View, values: Values | None) -> Books:
    while (code := ranking.run(books, terms, values is not None)) != FINISHED_ALL:
        if code == LOG_FULL or values is None:
            books = longer_log(books)
            continue
        listed = books.lists[columns.SOME, : books.counts[columns.LISTED]]
        _ask(policy, values, books, listed[books.jobs["status"][listed] != columns.DONE].astype(np.int64), view)
        ranking.decide(books, terms)
    return books


def _ask(policy: Ordering, values: Values, books: Books, active: Ints, view: View) -> None:
    """Have the policy give values to the jobs that wait or run."""
    rows, now, left = books.jobs[active], float(books.clock[0]), np.empty(len(active))
    believed_of(books, active, left)
    if view.losses is not None:
        whole = view.expected[active]
        left = view.losses.left(active, 1 - left / whole) * whole
    executed = books.results[columns.EXECUTED, active] + np.where(
        rows["status"] == columns.RUNNING, now - rows["since"], 0.0
    )
    given = values(Instant(now, active, left, executed))
    policy.check_known(given)
    books.jobs["value"][active] = given


def _has_history(semantics: EventTerms) -> bool:
    """Whether the order of equal jobs, or their places, depend on what was before."""
    kept = semantics.moves != "stays" or semantics.ties != "submission" or semantics.demoted == "last"
    return kept or semantics.charge == "every event" or semantics.running_first


def _books(
    jobs: Jobs, cluster: Cluster, policy: Ordering, view: View, value: Floats, weight: Floats, speed: Floats,
    fails: Floats,
) -> Books:  # fmt: skip
    duration = jobs.duration
    rows = columns.fresh_jobs(jobs.submit, duration, jobs.overhead, jobs.gpus, value, weight, view.expected)
    left = np.where(fails >= 0, fails * duration[:, None], -1.0)
    return fresh_books(
        rows, cluster.size, cluster.type, np.ascontiguousarray(speed, float), left, LOG_ROWS * len(rows) + 64,
        by_demand=policy.skip != "nobody", preempts=policy.preempts,
    )  # fmt: skip


def _terms(semantics: EventTerms, policy: Ordering, keys: Keys, placement: str) -> ClockTerms:
    return ClockTerms(
        preempts=policy.preempts, charges_every_event=semantics.charge == "every event",
        first_is_free=semantics.charge == "resumes", end_has_charge=semantics.end_has_charge,
        whole_limits=semantics.whole_limits, demoted_last=semantics.demoted == "last",
        running_first=semantics.running_first, by_submission=True,
        sticky=semantics.moves == "stays", skip=SKIPS[policy.skip], fit=FITS[placement],
        limits=keys.limits.astype(float),
        rank=np.arange(len(keys.limits) + 1.0) if keys.rank is None else keys.rank.astype(float),
        promote=float(keys.promote),
    )  # fmt: skip


def _outcome(jobs: Jobs, cluster: Cluster, books: Books) -> Outcome:
    counts = books.counts
    columns.keep(books.jobs)
    started, finished, executed, lost, stops = books.results
    return Outcome(
        jobs, cluster, started, finished, executed, executed * jobs.gpus, lost, stops.astype(np.int64),
        record=books.log[: counts[columns.LOGGED]],
        work={name: int(counts[getattr(columns, name.upper())]) for name in ("events", "heap_steps", "looks")},
    )  # fmt: skip
