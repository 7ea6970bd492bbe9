"""Rounds with pairs: by hand, against rounds without, and against a slow program written apart."""

from math import floor
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfcp.errors import SettingsError
from mfcp.simulator.batches import Batches
from mfcp.simulator.clocks.packed_rounds import entries
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.event_log import stretches
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.pairs import JobPairs
from mfcp.simulator.policies.base import Policy, Shares
from mfcp.simulator.semantics import RoundTerms
from mfcp.simulator.simulation import import_policies, simulate

import_policies()
SHARES = sorted(name for name, each in Policy.members.items() if issubclass(each, Shares) and each.packs)


def jobs_of(rows, **more):
    submit, gpus, duration = np.array(rows, float).T
    return Jobs(np.arange(len(submit)).astype(str), submit, gpus.astype(int), duration, np.ones(len(submit)), **more)


def alike(count, speed, kinds=1):
    """All jobs of one kind, which runs at this speed beside another."""
    return JobPairs(np.zeros(count, np.int64), np.full((1, 1, kinds, 2), speed))


def test_entries_are_single_jobs_each_followed_by_its_pairs():
    each = entries(3)
    assert list(zip(each.first.tolist(), each.second.tolist(), strict=True)) == [
        (0, 0), (1, 1), (0, 1), (2, 2), (0, 2), (1, 2)
    ]  # fmt: skip
    assert (each.single.tolist(), each.pair.tolist()) == ([0, 1, 3], [2, 4, 5])


def test_two_jobs_share_one_accelerator():
    """At .8 of their speed: 800 seconds for 640 steps, in rounds of 288 steps; alone they would take turns."""
    outcome = simulate(jobs_of([(0, 1, 640), (0, 1, 640)]), Cluster.parse("1"), Policy.build("max_min_packed"),
                       pairs=alike(2, 0.8))  # fmt: skip
    assert outcome.finished == pytest.approx([800, 800])
    assert outcome.work["rounds"] == 3
    assert outcome.held == pytest.approx([400, 400])  # half an accelerator each
    assert outcome.log.loc[outcome.log["event"] == "started", "gpus"].tolist() == [1, 0]


def test_who_is_left_over_has_the_accelerator_alone():
    jobs = jobs_of([(0, 1, 640), (0, 1, 160)])
    outcome = simulate(jobs, Cluster.parse("1"), Policy.build("max_min_packed"), pairs=alike(2, 0.8))
    assert outcome.finished == pytest.approx([360 + 360 - 8, 360])  # both give it back together, at 360; 352 are left
    moved = outcome.log[outcome.log["event"] == "moved"]
    assert moved.empty  # job 0 counted the accelerator before too


def test_who_came_second_counts_it_when_the_first_has_gone():
    jobs = jobs_of([(0, 1, 160), (0, 1, 640)])
    log = simulate(jobs, Cluster.parse("1"), Policy.build("max_min_packed"), pairs=alike(2, 0.8)).log
    assert stretches(log)[["job", "start_s", "end_s", "gpus"]].values.tolist() == [
        [0, 0, 360, 1], [1, 0, 360, 0], [1, 360, 712, 1],
    ]  # fmt: skip


def test_jobs_of_other_sizes_do_not_share():
    jobs = jobs_of([(0, 1, 360), (0, 2, 360)])
    outcome = simulate(jobs, Cluster.parse("2"), Policy.build("max_min_packed"), pairs=alike(2, 1.0))
    assert sorted(outcome.finished.tolist()) == [360, 720]


@pytest.mark.parametrize("name", sorted(set(SHARES) - {"gandiva"}))  # which finds out by trial
@pytest.mark.parametrize("seed", range(3))
def test_pairs_that_cannot_run_change_nothing(name, seed):
    rng = np.random.default_rng(seed)
    jobs = jobs_of(np.stack([np.sort(rng.uniform(0, 4e3, 12)), rng.choice([1, 2], 12), rng.uniform(50, 3e3, 12)], 1))
    cluster, speed = Cluster.parse("a:2,b:2"), rng.uniform(0.5, 1.5, (12, 2))
    outcomes = [
        simulate(jobs, cluster, Policy.build(name), speed=speed, pairs=pairs) for pairs in (None, alike(12, 0.0, 2))
    ]
    assert outcomes[0].finished.tolist() == outcomes[1].finished.tolist()
    assert outcomes[0].log.equals(outcomes[1].log)


def test_too_many_pairs_are_an_error(monkeypatch):
    monkeypatch.setattr("mfcp.simulator.clocks.packed_rounds.MOST", 3)
    jobs = jobs_of([(0, 1, 100)] * 4)
    with pytest.raises(SettingsError, match="looks at all pairs of jobs, and 4 wait or run at once"):
        simulate(jobs, Cluster.parse("1"), Policy.build("gandiva"), pairs=alike(4, 0.8))


def test_batches_and_pairs_do_not_go_together():
    jobs, one = jobs_of([(0, 1, 360)]), np.ones(1, np.int64)
    batches = Batches(0 * one, 0 * one, one, np.ones(1), one, 0 * one)
    with pytest.raises(SettingsError, match="pairs or batches, not both"):
        simulate(jobs, Cluster.parse("1"), Policy.build("max_min_packed"), pairs=alike(1, 0.8), batches=batches)


class Drawn(Shares):
    """Shares that depend on who there is, and on nothing else."""

    name: ClassVar[str] = ""
    packs: ClassVar[bool] = True
    seed: int = 0

    def solve(self, moment):
        numbers = [(job,) for job in moment.job.tolist()] + [tuple(moment.job[pair].tolist()) for pair in moment.pair]
        return np.array([share_of(self.seed, len(moment.job), who, len(moment.size)) for who in numbers])


def share_of(seed, count, who, kinds):
    """Ties and zeros among them."""
    return np.random.default_rng([seed, count, *who]).choice([0.0, 0.1, 0.25, 0.5], kinds)


def slowly(jobs, speed, pairs, size, seed, terms):
    """Finish times, by dictionaries of entries (job,) and (job, job)."""
    left, gpus = dict(enumerate(jobs.iterations.tolist())), jobs.gpus.tolist()
    now, last_reset, arrived, active, changed = 0.0, 0.0, 0, [], False
    share, time, deficit, finish, order = {}, {}, {}, {}, []
    kinds = range(len(size))

    def rate(who, kind):
        if len(who) == 1:
            return (speed[who[0]][kind],)
        if gpus[who[0]] != gpus[who[1]]:
            return (0.0, 0.0)
        return tuple(pairs.speed[pairs.kind[who[0]], pairs.kind[who[1]], kind])

    while len(finish) < len(left):
        while arrived < len(left) and jobs.submit[arrived] <= now:
            order += [(arrived,)] + [(other, arrived) for other in active]
            time |= {(arrived,): [terms.round_s / 2 for _ in kinds]}
            time |= {(other, arrived): [0.0 for _ in kinds] for other in active}
            active.append(arrived)
            arrived, changed = arrived + 1, True
        if changed and (now >= last_reset + terms.reset_s or last_reset == 0):
            for who in order:
                for kind in kinds:
                    owed = share.get(who, [0.0] * len(size))[kind] * (now - last_reset)
                    owed -= time[who][kind] - terms.round_s / 2
                    deficit.setdefault(who, [0.0] * len(size))[kind] += owed
                    time[who][kind] = terms.round_s / 2
            share = {who: share_of(seed, len(active), who, len(size)).tolist() for who in order}
            last_reset, changed = now, False
        busy, runs = set(), []
        for kind in kinds:
            free = size[kind]

            def rank(who, kind=kind, share=share, time=time, deficit=deficit):
                own = share.get(who, [0.0] * len(size))[kind]
                return (-own / time[who][kind] if own else 0.0, -deficit.get(who, [0.0] * len(size))[kind], -own)

            for who in sorted(order, key=rank):
                if free >= gpus[who[0]] and not busy & set(who) and min(rate(who, kind)) > 0:
                    busy |= set(who)
                    free -= gpus[who[0]]
                    runs += [(who, kind)] if who in share else []
        if not runs:
            now = jobs.submit[arrived] if arrived < len(left) else last_reset + terms.reset_s
            now, changed = max(now, last_reset), changed or arrived >= len(left)
            continue
        ends = []
        for who, kind in runs:
            steps = [min(floor(r * terms.round_s), left[job]) for r, job in zip(rate(who, kind), who, strict=True)]
            took = max(s / r for s, r in zip(steps, rate(who, kind), strict=True))
            time[who][kind] += took
            ends.append(took)
            for job, done in zip(who, steps, strict=True):
                left[job] -= done
                if left[job] <= 0:
                    finish[job], changed = now + took, True
        now += max(ends)
        active = [job for job in active if job not in finish]
        order = [who for who in order if not set(who) & set(finish)]
    return [finish[job] for job in range(len(left))]


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000), count=st.integers(1, 7), reset=st.sampled_from([0.0, 1920.0]))
def test_a_slow_program_finds_the_same(seed, count, reset):
    rng = np.random.default_rng(seed)
    submit = np.sort(rng.choice([0.0, 400.0, 2500.0], count) + rng.integers(0, 2, count) * rng.uniform(1, 900, count))
    jobs = jobs_of(np.stack([submit, rng.choice([1, 1, 2], count), rng.uniform(100, 4000, count)], axis=1))
    speed, size = rng.choice([0.5, 1.0, 1.5], (count, 2)), [2, 3]
    table = rng.choice([0.0, 0.4, 0.7, 0.9], (3, 3, 2, 2))
    pairs, terms = JobPairs(rng.integers(0, 3, count), table), RoundTerms(reset_s=reset)
    outcome = simulate(jobs, Cluster.parse("a:2,b:3"), Drawn(seed=seed), speed=speed, pairs=pairs, semantics=terms)
    assert outcome.finished.tolist() == pytest.approx(slowly(jobs, speed, pairs, size, seed, terms))
    held = stretches(outcome.log)
    for at in np.unique(held["start_s"]):
        now = held[(held["start_s"] <= at) & (held["end_s"] > at)]
        assert (now.groupby("node")["gpus"].sum() <= [size[kind] for kind in sorted(set(now["node"]))]).all()
