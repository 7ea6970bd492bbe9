"""The clock of events: time jumps from submission to end to demotion; at each, jobs are ordered and chosen.

Everything that falls on one instant is one event: ends first, then submissions. The loops are compiled, see
`mfcp.simulator.kernels`; which of three runs depends on what the order of jobs is like.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mfcp.arrays import Floats, Ints
from mfcp.errors import SettingsError
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.happenings import log_frame
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.kernels import books as columns
from mfcp.simulator.kernels.books import Books, Terms, fresh_books, longer_log
from mfcp.simulator.kernels.progress import FINISHED_ALL, LOG_FULL, charge_all
from mfcp.simulator.outcome import Outcome
from mfcp.simulator.policies.base import Instant, Keys, Ordering, View
from mfcp.simulator.semantics import Events

SKIPS = {"any": columns.ANY, "nobody": columns.NOBODY, "backfill": columns.BACKFILL}
FITS = {"first": columns.FIRST, "best": columns.BEST, "fastest": columns.FASTEST}


def run_events(
    jobs: Jobs, cluster: Cluster, policy: Ordering, semantics: Events, view: View, speed: Floats, fails: Floats,
    placement: str,
) -> Outcome:  # fmt: skip
    """Run all jobs to their end; see `mfcp.simulator.simulation.simulate`.

    Args:
        fails: (n, attempts) part of a job that is left when an attempt fails; negative where it succeeds.

    Raises:
        SettingsError: the policy gives keys that are no numbers, as of unknown durations.
    """
    keys = policy.keys(view)
    rules, weight = _rules(semantics, policy, keys, placement), np.broadcast_to(np.float64(keys.weight), len(jobs.id))
    books = _books(jobs, cluster, view, keys.value, weight, speed, fails)
    policy.check_known(keys.value + np.where(weight != 0, weight * view.expected, 0.0))
    if policy.skip == "backfill" and not policy.preempts:
        policy.check_known(view.expected)
        books = _backfill(policy, rules, books, view)
    else:
        books = _by_key(policy, rules, books, view)
    return _outcome(jobs, cluster, books)


def _backfill(policy: Ordering, rules: Terms, books: Books, view: View) -> Books:
    from mfcp.simulator.kernels import backfilling

    if policy.asks or len(rules.limits):
        raise SettingsError(f"policy '{policy.name}': backfilling needs an order that stays; take skip=any")
    jobs = books.jobs
    order = np.lexsort((jobs["value"] + np.where(jobs["weight"] != 0, jobs["weight"] * view.expected, 0.0),))
    jobs["key"][order] = np.arange(len(jobs))
    books.lists[columns.QUEUE] = np.lexsort((jobs["key"], jobs["kind"]))
    jobs["mark"][books.lists[columns.QUEUE]] = np.arange(len(jobs))
    books = books._replace(tree=np.full(books.kinds["root"][-1], np.inf))
    while backfilling.run(books, rules) == LOG_FULL:
        books = longer_log(books)
    return books


def _by_key(policy: Ordering, rules: Terms, books: Books, view: View) -> Books:
    if policy.preempts and _has_history(rules):
        from mfcp.simulator.kernels import ranking as kernel
    else:
        from mfcp.simulator.kernels import queueing as kernel  # type: ignore[no-redef]
    values = policy.watch(view)
    while (code := kernel.run(books, rules, policy.asks)) != FINISHED_ALL:
        if code == LOG_FULL:
            books = longer_log(books)
            continue
        active = _active(books, rules)
        given = values(_instant(books, active))
        policy.check_known(given)
        books.jobs["value"][active] = given
        if hasattr(kernel, "reorder"):
            kernel.reorder(books, rules)
        kernel.decide(books, rules)
        if rules.charges_every_event:
            charge_all(books)
    return books


def _has_history(rules: Terms) -> bool:
    """Whether the order of equal jobs, or their places, depend on what was before."""
    fresh = rules.sticky and rules.by_submission
    return not fresh or rules.charges_every_event or rules.demoted_last or rules.running_first


def _active(books: Books, rules: Terms) -> Ints:
    """Rows of the jobs that wait or run, in their order where that has a history."""
    status = books.jobs["status"]
    if _has_history(rules):
        listed = books.lists[columns.SOME, : books.counts[columns.LISTED]]
        return np.asarray(listed[status[listed] != columns.DONE], np.int64)
    return np.flatnonzero((status == columns.WAITING) | (status == columns.RUNNING))


def _instant(books: Books, active: Ints) -> Instant:
    rows, now = books.jobs[active], float(books.clock[0])
    elapsed = np.where(rows["status"] == columns.RUNNING, now - rows["since"], 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        done = np.where(elapsed > 0, np.maximum(elapsed - rows["charge"], 0.0) / rows["pace"], 0.0)
    left = np.maximum(rows["left"] + rows["more"] - done, 0.0)
    return Instant(now, active, left, rows["executed"] + elapsed)


def _books(
    jobs: Jobs, cluster: Cluster, view: View, value: Floats, weight: Floats, speed: Floats, fails: Floats
) -> Books:
    rows: Any = np.zeros(len(jobs.id), columns.JOB)
    for name in ("submit", "duration", "overhead", "gpus"):
        rows[name] = getattr(jobs, name)
    rows["value"], rows["weight"], rows["more"] = value, weight, view.expected - jobs.duration
    left = np.where(fails >= 0, fails * jobs.duration[:, None], -1.0)
    return fresh_books(rows, cluster.size, cluster.type, np.ascontiguousarray(speed, float), left, 4 * len(rows) + 64)


def _rules(semantics: Events, policy: Ordering, keys: Keys, placement: str) -> Terms:
    return Terms(
        preempts=policy.preempts, charges_every_event=semantics.charge == "every event",
        first_is_free=semantics.charge == "resumes", end_has_charge=semantics.end_has_charge,
        whole_limits=semantics.whole_limits, demoted_last=semantics.demoted == "last",
        running_first=semantics.running_first, by_submission=semantics.ties == "submission",
        sticky=semantics.moves == "stays", skip=SKIPS[policy.skip], fit=FITS[placement],
        limits=keys.limits.astype(float),
        rank=np.arange(len(keys.limits) + 1.0) if keys.rank is None else keys.rank.astype(float),
    )  # fmt: skip


def _outcome(jobs: Jobs, cluster: Cluster, books: Books) -> Outcome:
    rows, counts = books.jobs, books.counts
    own = {name: rows[name].copy() for name in ("started", "finished", "executed", "lost")}
    return Outcome(
        jobs, cluster, **own, held=own["executed"] * jobs.gpus, stops=rows["stops"].astype(np.int64),
        log=log_frame(books.log[: counts[columns.LOGGED]]),
        work={name: int(counts[getattr(columns, name.upper())]) for name in ("events", "heap_steps", "looks")},
    )  # fmt: skip
