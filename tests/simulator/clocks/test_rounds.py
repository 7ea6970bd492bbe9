"""The order in which a type is filled, and what is booked at a reset."""

import numpy as np

from mfcp.simulator.clocks.rounds import (
    ACTIVE,
    RESET,
    SHUFFLE,
    THROUGH,
    RoundTerms,
    Table,
    fresh_ledger,
    run_rounds,
    settle,
)
from mfcp.simulator.clocks.state import fresh_log

TERMS = RoundTerms(360.0, 1920.0, 180.0, 0.0, False, False)


def table(n=2, submit=None):
    return Table(
        np.zeros(n) if submit is None else submit, np.ones(n, int), np.full(n, 1e4), np.ones((n, 1)), np.array([1])
    )


def go(jobs, terms=TERMS, code=THROUGH, ledger=None):
    ledger = fresh_ledger(jobs) if ledger is None else ledger
    return ledger, run_rounds(jobs, terms, ledger, fresh_log(10_000), code, len(jobs.submit) - 1)


def test_shares_are_asked_for_at_the_first_job_and_types_are_shuffled_every_round():
    ledger, code = go(table())
    assert code == RESET
    assert settle(TERMS, ledger).tolist() == [0, 1]
    assert go(table(), TERMS._replace(shuffles=True), RESET, ledger)[1] == SHUFFLE


def test_time_received_follows_shares():
    jobs = table()
    ledger, _ = go(jobs)
    active = settle(TERMS, ledger)
    ledger.share[active, 0] = [0.75, 0.25]
    ledger.clock[1] = 1e-9  # as if the reset were not at zero, after which another may come at once
    ledger, code = go(jobs, TERMS._replace(reset_s=1e9), RESET, ledger)
    assert code == THROUGH
    assert ledger.counts[ACTIVE] == 0
    first = ledger.finished[0]
    assert 10_000 / 0.75 * 0.9 < first < 10_000 / 0.75 * 1.1


def test_a_deficit_is_what_was_promised_and_not_received():
    ledger, _ = go(table())
    active = settle(TERMS, ledger)
    ledger.share[active, 0] = [0.5, 0.5]
    ledger.time[0, 0] += 1000.0
    ledger.clock[0] = 1000.0
    settle(TERMS, ledger)
    assert ledger.deficit[:, 0].tolist() == [-500.0, 500.0]
    assert (ledger.time == 180.0).all()
