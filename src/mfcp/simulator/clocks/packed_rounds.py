"""Rounds in which two jobs may share their accelerators: a pair has a share of the time on each type, as a job has.

A pair runs until both of its jobs have done the steps of the round. Books are kept of pairs as of single jobs
(Narayanan et al., "Heterogeneity-aware cluster scheduling", OSDI 2020, §3.1).
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from mfcp.arrays import Bools, Floats, Ints
from mfcp.errors import SettingsError
from mfcp.simulator.clocks.rounds import RoundsRun
from mfcp.simulator.course import Course
from mfcp.simulator.pairs import JobPairs
from mfcp.simulator.policies.base import Moment, Shares
from mfcp.simulator.semantics import RoundTerms

MOST = 1000
"""Jobs that may wait or run at once: their pairs and books take some half a gigabyte on three types."""


class Entries(NamedTuple):
    """Who can have a share, of k jobs: each of them, followed by its pairs with earlier ones.

    Attributes:
        first, second: (e,) positions of the jobs, the earlier first; the same where it is a single one.
        single: (k,) and pair: (e - k,) positions among the entries.
    """

    first: Ints
    second: Ints
    single: Ints
    pair: Ints


@lru_cache(maxsize=8)
def entries(count: int) -> Entries:
    """Of k jobs."""
    second, first = np.tril_indices(count)
    order = np.lexsort((first, first != second, second))
    first, second = first[order], second[order]
    alone = first == second
    return Entries(first, second, np.flatnonzero(alone), np.flatnonzero(~alone))


class PackedRun(RoundsRun):
    """What packing needs besides.

    Attributes:
        partner: (n,) with whom a job shares its accelerators in this round, or -1.
        pair_share, pair_time, pair_deficit: (k, k, K) of active jobs, by position, the earlier first; of single ones
            on the diagonal.
        pace_of: (e, K, 2) steps per second of the active entries; of a single one both are the same.
    """

    def __init__(
        self, course: Course, policy: Shares, semantics: RoundTerms, speed: Floats, seed: int, pairs: JobPairs
    ) -> None:
        super().__init__(course, policy, semantics, speed, seed)
        self.pairs, kinds = pairs, len(self.size)
        self.partner = np.full(len(speed), -1)
        self.pair_share, self.pair_time, self.pair_deficit = (np.zeros((0, 0, kinds)) for _ in range(3))
        self.pace_of = np.zeros((0, kinds, 2))

    def enter(self, new: Ints) -> None:
        """A pair with a new job has had no time yet; at the next reset it counts as owed half a round.

        Raises:
            SettingsError: so many jobs have so many pairs that memory would run out.
        """
        count = len(new)
        if len(self.active) > MOST:
            raise SettingsError(
                f"policy '{self.policy.name}' looks at all pairs of jobs, and {len(self.active)} wait or run at once, "
                f"more than {MOST}; take fewer jobs, a larger cluster, or a policy that does not pack"
            )
        grow = ((0, count), (0, count), (0, 0))
        self.pair_share, self.pair_time, self.pair_deficit = (
            np.pad(each, grow) for each in (self.pair_share, self.pair_time, self.pair_deficit)
        )
        at = np.arange(len(self.pair_time) - count, len(self.pair_time))
        self.pair_time[at, at] = self.start_s
        self._look()

    def leave(self, gone: Ints) -> None:
        """Their pairs go with them."""
        if not len(gone):
            return
        stay = np.isin(self.active, gone, invert=True)
        self.pair_share, self.pair_time, self.pair_deficit = (
            each[stay][:, stay] for each in (self.pair_share, self.pair_time, self.pair_deficit)
        )
        self._look(self.active[stay])

    def _look(self, rows: Ints | None = None) -> None:
        """Speeds of all entries of the active jobs; of other numbers of accelerators nobody shares them."""
        rows = self.active if rows is None else rows
        each = entries(len(rows))
        first, second = rows[each.first], rows[each.second]
        kind, gpus = self.pairs.kind, self.course.jobs.gpus
        pace = self.pairs.speed[kind[first], kind[second]]
        pace = pace / np.stack([self.course.jobs.step[first], self.course.jobs.step[second]], axis=1)[:, None, :]
        pace = pace * ((pace.min(axis=2) > 0) & (gpus[first] == gpus[second])[:, None])[:, :, None]
        pace[each.single] = self.speed[rows][:, :, None]
        self.pace_of = pace

    def settle(self, rows: Ints, elapsed: float) -> None:
        """As of single jobs."""
        known = self.given[rows]
        promised = self.pair_share * (known[:, None] & known)[:, :, None] * elapsed
        self.pair_deficit += promised - (self.pair_time - self.start_s)
        self.pair_time[:] = self.start_s

    def moment(self, rows: Ints) -> Moment:
        """With the pairs of the jobs."""
        at = np.arange(len(rows))
        self.share[rows] = self.pair_share[at, at]
        each, moment = entries(len(rows)), super().moment(rows)
        pair = np.stack([each.first[each.pair], each.second[each.pair]], axis=1)
        return replace(moment, pair=pair, together=self.pace_of[each.pair])

    def set_shares(self, rows: Ints, shares: Floats) -> None:
        """Of jobs, and of pairs if the policy gives them any."""
        each = entries(len(rows))
        both = np.zeros((len(each.first), len(self.size)))
        both[each.single] = shares[: len(rows)]
        both[each.pair[: len(shares) - len(rows)]] = shares[len(rows) :]
        self.pair_share[each.first, each.second] = both

    def fill(self, types: list[int]) -> Bools:
        """As of single jobs; a job takes part in one entry at most."""
        rows, each = self.active, entries(len(self.active))
        self.before[rows] = self.place[rows]
        self.place[rows], self.partner[rows] = -1, -1
        known = self.given[rows]
        given = known[each.first] & known[each.second]
        share, time, deficit = (
            table[each.first, each.second] for table in (self.pair_share, self.pair_time, self.pair_deficit)
        )
        weight = np.where(given[:, None], share / np.where(time > 0, time, 1.0), 0.0)
        taken, asked = np.zeros(len(rows), bool), self.course.jobs.gpus[rows].tolist()
        for kind in types:
            wants = (self.pace_of[:, kind, 0] > 0) & ~taken[each.first] & ~taken[each.second]
            if self.policy.strict:
                wants &= share[:, kind] > 0
            queue = np.flatnonzero(wants)
            queue = queue[np.lexsort((-share[queue, kind], -deficit[queue, kind], -weight[queue, kind]))]
            chosen = _choose(each.first[queue], each.second[queue], asked, int(self.size[kind]), taken)
            runs = queue[chosen][given[queue[chosen]]]  # one that the shares do not know has blocked a place, no more
            first, second = rows[each.first[runs]], rows[each.second[runs]]
            self.place[first], self.place[second] = kind, kind
            shared = first != second
            self.partner[first[shared]], self.partner[second[shared]] = second[shared], first[shared]
        on: Bools = self.place[rows] >= 0
        return on

    def pace(self, rows: Ints, kind: Ints) -> Floats:
        """Slower for those that share."""
        at, other = self._positions(rows)
        low, high = np.minimum(at, other), np.maximum(at, other)
        entry = high * (high + 1) // 2 + np.where(low == high, 0, 1 + low)  # of the jobs before there are so many
        return np.asarray(self.pace_of[entry, kind, (at > other).astype(int)])

    def _positions(self, rows: Ints) -> tuple[Ints, Ints]:
        """(k,) of jobs among the active, and of those with whom they share; of single ones twice the same."""
        other = np.where(self.partner[rows] >= 0, self.partner[rows], rows)
        return np.searchsorted(self.active, rows), np.searchsorted(self.active, other)

    def until_all(self, rows: Ints, took: Floats) -> Floats:
        """A pair gives its accelerators back together."""
        longest = np.zeros(len(self.place))
        longest[rows] = took
        other = np.where(self.partner[rows] >= 0, self.partner[rows], rows)
        return np.asarray(np.maximum(took, longest[other]))

    def part(self, rows: Ints) -> Floats:
        """Half of what is shared."""
        return super().part(rows) / np.where(self.partner[rows] >= 0, 2.0, 1.0)

    def counted(self, rows: Ints) -> Ints:
        """Those of a pair count for the job that came first."""
        return np.where((self.partner[rows] >= 0) & (self.partner[rows] < rows), 0, super().counted(rows))

    def book(self, rows: Ints, kind: Ints, took: Floats) -> None:
        """Once for a pair."""
        at, other = self._positions(rows)
        once = at <= other
        self.pair_time[at[once], other[once], kind[once]] += took[once]


def _choose(first: Ints, second: Ints, asked: list[int], free: int, taken: Bools) -> list[int]:
    """Positions of those in a queue that run, in order; `taken` tells whose jobs do already, and is kept up."""
    chosen, busy, left = [], taken.tolist(), int(len(taken) - taken.sum())
    for position, (one, other) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
        if not (free and left):
            break
        if busy[one] or busy[other] or asked[one] > free:
            continue
        busy[one] = busy[other] = True
        free -= asked[one]
        left -= 1 + (one != other)
        chosen.append(position)
    taken[:] = busy
    return chosen
