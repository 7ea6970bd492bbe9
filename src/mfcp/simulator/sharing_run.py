"""A run of a policy of shares on the clock of rounds."""

from __future__ import annotations

from random import Random

import numpy as np

from mfcp.arrays import Floats, Ints
from mfcp.simulator.clocks import rounds, state
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.outcome import Outcome
from mfcp.simulator.policies.base import Moment, Shares, View
from mfcp.simulator.semantics import Rounds


def run_sharing(
    jobs: Jobs, cluster: Cluster, policy: Shares, semantics: Rounds, view: View, speed: Floats, seed: int
) -> Outcome:
    """Run all jobs to their end; see `mfcp.simulator.simulation.simulate`."""
    steps_per_s = speed / jobs.step[:, None]
    table = rounds.Table(jobs.submit, jobs.gpus, jobs.iterations, steps_per_s, cluster.by_type)
    terms = rounds.RoundTerms(
        semantics.round_s, semantics.reset_s, semantics.round_s / 2, semantics.cut_s, policy.strict, policy.blind
    )
    ledger, log = rounds.fresh_ledger(table), state.fresh_log(16 * len(jobs.id) + 64)
    run = _Run(jobs, table, ledger, view, Random(seed))
    order = Random(seed + 5)
    code = rounds.THROUGH
    while (code := rounds.run_rounds(table, terms, ledger, log, code, len(jobs.id) - 1)) != rounds.THROUGH:
        if code == rounds.LOG_FULL:
            log = state.longer_log(log, int(ledger.counts[rounds.LOGGED]))
        elif code == rounds.SHUFFLE:
            types = list(range(len(cluster.types)))
            order.shuffle(types)
            ledger.types[:] = types
        else:
            active = rounds.settle(terms, ledger)
            if len(active):
                ledger.share[active] = policy.solve(run.moment(active))
    return Outcome.of_rounds(jobs, cluster, ledger, log)


class _Run:
    """What the policy's view of a reset is made of, from one reset to the next."""

    def __init__(self, jobs: Jobs, table: rounds.Table, ledger: rounds.Ledger, view: View, random: Random) -> None:
        self.table, self.ledger, self.random = table, ledger, random
        known = np.where(np.isnan(view.expected), jobs.duration, view.expected)
        self.more = (known / jobs.duration - 1.0) * jobs.iterations  # steps that the belief adds
        self.isolated, self.split = np.zeros(len(jobs.id)), np.full(len(jobs.id), np.nan)
        self.left = ledger.left.copy()
        self.active = np.empty(0, np.int64)

    def moment(self, active: Ints) -> Moment:
        """Of the active jobs now."""
        table, ledger = self.table, self.ledger
        gone = np.setdiff1d(self.active, active)[::-1]
        freed = tuple(int(kind) for job in gone for kind in np.flatnonzero(ledger.share[job] > 0))
        seen = active[~np.isnan(self.split[active])]
        self.isolated[seen] += (self.left[seen] - ledger.left[seen]) / self.split[seen]
        new = np.isin(active, self.active, invert=True)
        moment = Moment(
            active, table.gpus[active], table.speed[active], np.maximum(ledger.left[active] + self.more[active], 1.0),
            ledger.clock[0] - table.submit[active], self.isolated[active],
            np.where(new[:, None], 0.0, ledger.share[active]), freed, table.size, self.random,
        )  # fmt: skip
        self.split[active], self.left[active], self.active = moment.equal_split, ledger.left[active], active
        return moment
