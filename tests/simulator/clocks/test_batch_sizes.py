"""Batch sizes that jobs change while they train: by hand, and against a scalar program written apart."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mfcp.errors import SettingsError
from mfcp.simulator.batches import Batches
from mfcp.simulator.clocks.batch_sizes import BatchSizes
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.course import Course
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Policy
from mfcp.simulator.semantics import RoundTerms
from mfcp.simulator.simulation import import_policies, simulate

import_policies()
TERMS = RoundTerms(round_s=15.0, reset_s=0.0)


def batches(*phases, ahead=0):
    """Phases (job, epoch, size, rate, samples)."""
    job, epoch, size, rate, samples = (np.array(column) for column in zip(*phases, strict=True))
    return Batches(job, epoch, size, rate.astype(float), samples, np.full(len(job), ahead))


def jobs(*iterations, **columns):
    n = len(iterations)
    return Jobs(
        np.arange(n).astype(str), np.zeros(n), np.ones(n, int), np.array(iterations, float), np.ones(n), **columns
    )


GROWS = batches((0, 0, 10, 1.0, 100), (0, 2, 20, 0.8, 100))


def run(iterations, changes, **columns):
    return simulate(
        jobs(*iterations, **columns), Cluster.parse("1"), Policy.build("max_min"), semantics=TERMS, batches=changes
    )


def test_a_size_is_seen_to_be_wanted_after_one_round_and_taken_after_the_next():
    """Ten epochs of 10 steps: after 15 steps the second is over, after 30 three; of 7 epochs of 5 steps 12 a round."""
    outcome = run([100], GROWS)
    assert outcome.finished.tolist() == [15 + 15 + 15 + 15 + 11 / 0.8]


def test_who_looks_ahead_takes_it_earlier():
    """After 15 steps epoch 2 of a phase from 3 on is wanted; 30 steps are 3 epochs."""
    phases = ((0, 0, 10, 1.0, 100), (0, 3, 20, 0.8, 100))
    later, sooner = (run([100], batches(*phases, ahead=ahead)).finished[0] for ahead in (0, 1))
    assert sooner == run([100], GROWS).finished[0]
    assert later != sooner


def test_a_begun_epoch_counts_as_done():
    """25 of 100 steps at the change: 3 epochs of 10, so that 35 of 5 a epoch are left."""
    course = Course(jobs(100), Cluster.parse("1"), np.array([100.0]), np.full((1, 1), -1.0))
    speed = np.ones((1, 1))
    sizes = BatchSizes(GROWS, course, speed)
    course.left[:] = 75
    sizes.look(np.array([0]))
    sizes.take(np.array([0]))
    assert (course.left[0], sizes.total[0], speed[0, 0]) == (35, 50, 0.8)


def test_an_attempt_that_fails_begins_with_the_first_size():
    course = Course(jobs(100), Cluster.parse("1"), np.array([100.0]), np.full((1, 1), 0.5))
    assert course.goal[0] == 50
    speed = np.ones((1, 1))
    sizes = BatchSizes(GROWS, course, speed)
    course.left[:] = 70
    sizes.look(np.array([0]))
    sizes.take(np.array([0]))
    assert course.goal[0] == 25
    sizes.restart(np.array([0]))
    assert (sizes.total[0], speed[0, 0], sizes.wanted[0]) == (100, 1.0, 0)
    outcome = simulate(
        jobs(100, success=np.full(1, 1e-9)), Cluster.parse("1"), Policy.build("max_min"), semantics=TERMS,
        batches=GROWS, retries=2,
    )  # fmt: skip
    assert outcome.log["event"].tolist().count("failed") == 2


def test_jobs_without_phases_are_as_they_were():
    with_one = run([100, 90], GROWS)
    alone = simulate(jobs(100, 90), Cluster.parse("1"), Policy.build("max_min"), semantics=TERMS)
    assert with_one.held[1] == alone.held[1] == 90
    assert with_one.held[0] == pytest.approx(30 + 35 / 0.8)


class Scalar:
    """One job, as the rules say it in words."""

    def __init__(self, iterations, phases, samples, ahead):
        self.phases, self.samples, self.ahead = phases, samples, ahead
        self.size, self.total, self.done, self.flag = phases[0][1], iterations, 0, None

    def steps_of_epoch(self, size):
        return math.ceil(self.samples / size)

    def wanted(self, epoch):
        return [size for first, size in self.phases if first <= epoch][-1]

    def look(self):
        if self.flag is None:
            epoch = math.ceil(self.done / self.steps_of_epoch(self.size))
            sizes = [self.wanted(epoch)] + ([self.wanted(epoch + self.ahead)] if self.ahead else [])
            target = max(sizes)
            ladder = sorted({size for _, size in self.phases})
            if target != self.size:
                self.flag = ladder[ladder.index(self.size) + (1 if target > self.size else -1)]

    def take(self):
        if self.flag is None:
            return
        old, new, self.flag = self.size, self.flag, None
        epochs = math.ceil(self.total / self.steps_of_epoch(old))
        total = math.ceil(self.total * old / new)
        if math.ceil(total / self.steps_of_epoch(new)) != epochs:
            total = epochs * self.steps_of_epoch(new)
        self.done = min(math.ceil(self.done / self.steps_of_epoch(old)) * self.steps_of_epoch(new), total)
        self.total, self.size = total, new


@given(st.data())
def test_sizes_follow_a_scalar_program(data):
    """Several jobs with up to four phases of sizes that grow and shrink; rounds of any length."""
    phases, scalars, n = [], [], data.draw(st.integers(1, 3))
    ahead = data.draw(st.integers(0, 2))
    iterations = [data.draw(st.integers(1, 400)) for _ in range(n)]
    for job in range(n):
        samples = data.draw(st.integers(1, 200))
        epochs = sorted({0, *data.draw(st.lists(st.integers(1, 12), max_size=3))})
        own = [(epoch, data.draw(st.sampled_from([4, 8, 16, 32]))) for epoch in epochs]
        phases += [(job, epoch, size, 1.0 / size, samples) for epoch, size in own]
        scalars.append(Scalar(iterations[job], own, samples, ahead))
    course = Course(jobs(*iterations), Cluster.parse("4"), np.array(iterations, float), np.full((n, 1), -1.0))
    speed = np.ones((n, 1))
    sizes = BatchSizes(batches(*phases, ahead=ahead), course, speed)
    for _ in range(12):
        ran = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
        for job in np.flatnonzero(ran):
            steps = data.draw(st.integers(0, int(course.left[job])))
            course.left[job] -= steps
            scalars[job].done += steps
            scalars[job].take()
        sizes.take(np.flatnonzero(ran))
        sizes.look(np.arange(n))
        for job, scalar in enumerate(scalars):
            scalar.look()
            assert (sizes.total[job], course.left[job]) == (scalar.total, scalar.total - scalar.done)
            assert speed[job, 0] == pytest.approx(scalar.phases[0][1] / scalar.size)


def test_they_change_in_rounds_only():
    with pytest.raises(SettingsError, match="change in rounds only"):
        simulate(jobs(10), Cluster.parse("1"), Policy.build("fifo"), batches=GROWS)
