"""The adjuster: against a loop over all sizes written apart, and what must hold of its changes."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mfcp.simulator.qore.adjuster import CEILINGS, FLOORS, GROW, SHRINK, Running, adjust, decode, evolve
from mfcp.simulator.qore.equations import RunningJobs


def times(speed):
    """Seconds fall with CPU up to its peak, and rise where memory is short."""

    def of(rows, sizes):
        return speed[rows, None] / np.minimum(sizes[..., 1], 1.2) * np.where(sizes[..., 2] < 1.1, 1.3, 1.0)

    return of


def drawn(seed, n=6):
    rng = np.random.default_rng(seed)
    speed, given = rng.uniform(1, 20, n), rng.uniform([0.0, 0.6, 1.05], [0.0, 1.5, 1.8], (n, 3))
    seconds = times(speed)(np.arange(n), given[:, None])[:, 0]
    total, part = rng.uniform(50, 500, n), rng.uniform(0, 0.9, n)
    jobs = RunningJobs(
        seconds, total, total * part, total * (1 - part), rng.integers(1, 5, n), rng.uniform(0.01, 0.2, n)
    )
    available = jobs.remaining * seconds * rng.uniform(0.5, 3, n)
    return Running(jobs, available, given, np.tile([0.0, 1.0, 1.0], (n, 1))), speed


def execution(running, job, change, seconds):
    jobs = running.jobs
    if change:
        return (
            max(jobs.total[job] * jobs.workers[job] / (jobs.workers[job] + change) - jobs.done[job], 0)
            * jobs.seconds[job]
        )
    return jobs.remaining[job] * seconds


@given(st.integers(0, 10_000), st.floats(0, 1), st.sampled_from(["exhaustive", "genetic"]))
def test_changes_are_legal_and_worth_something(seed, load, search):
    running, speed = drawn(seed)
    of, jobs = times(speed), running.jobs
    late = jobs.remaining * jobs.seconds > running.available
    for each in adjust(running, load, of, search=search, rng=np.random.default_rng(seed)):
        before = jobs.remaining[each.job] * jobs.seconds[each.job]
        now = execution(running, each.job, each.workers, of(np.array([each.job]), each.given[None, None])[0, 0])
        assert jobs.workers[each.job] + each.workers >= 1
        if each.workers == 0:
            assert (each.given[1:] >= FLOORS[1:] - 1e-12).all()
            assert (each.given[1:] <= CEILINGS[1:] + 1e-12).all()
        grows = late[each.job] or (not late.any() and load <= 0.35)
        assert now < before if grows else now <= running.available[each.job] * (1 + 1e-12)
    if not late.any() and 0.35 < load <= 0.7:
        assert adjust(running, load, of) == []


@pytest.mark.parametrize("seed", range(20))
def test_a_late_job_gets_the_size_that_saves_most(seed):
    """Against a loop over the levels of both resources, and a worker more."""
    running, speed = drawn(seed)
    of, jobs = times(speed), running.jobs
    found = [each for each in adjust(running, 0.3, of) if each.worth > 0]
    late = jobs.remaining * jobs.seconds > running.available
    for each in found if late.any() else []:
        best = max(0.0, jobs.remaining[each.job] * jobs.seconds[each.job] - execution(running, each.job, 1, 0.0))
        for cpu in np.linspace(*GROW[0], 16):
            for memory in np.linspace(*GROW[1], 16):
                size = np.clip(running.given[each.job] * [1.0, cpu, memory], FLOORS, CEILINGS) * [0, 1, 1]
                seconds = of(np.array([each.job]), size[None, None])[0, 0]
                best = max(best, jobs.remaining[each.job] * (jobs.seconds[each.job] - seconds))
        assert each.worth == pytest.approx(best)


def test_genes_alternate_bits_of_memory_and_cpu():
    running, _ = drawn(0, n=1)
    running = Running(running.jobs, running.available, np.ones((1, 3)), np.ones((1, 3)))
    sizes = decode(running, np.array([0]), np.array([0, 255, 0b10101010, 0b01010101]), grows=True)[0]
    (cpu_low, cpu_high), (memory_low, memory_high) = GROW
    corners = [[cpu_low, memory_low], [cpu_high, memory_high], [cpu_low, memory_high], [cpu_high, memory_low]]
    assert sizes[:, 1:] == pytest.approx(np.maximum(corners, FLOORS[1:]))
    assert (sizes[:, 0] == 1).all()
    smaller = decode(running, np.array([0]), np.array([0, 255]), grows=False)[0]
    assert smaller[:, 1] == pytest.approx([max(SHRINK[0][0], FLOORS[1]), SHRINK[0][1]])


def test_a_change_changes_something():
    """Nobody is late under a heavy load: all shrink, but for jobs of one worker that use neither CPU nor memory."""
    running, speed = drawn(3)
    running = replace(running, available=np.full(6, 1e9), jobs=replace(running.jobs, workers=np.ones(6, int)))
    assert len(adjust(running, 0.9, times(speed))) == 3
    bare = replace(running, given=np.zeros((6, 3)), peak=np.zeros((6, 3)))
    assert adjust(bare, 0.9, lambda rows, sizes: np.ones(sizes.shape[:2])) == []


def test_workers_with_an_accelerator_become_fewer_and_never_slower():
    running, speed = drawn(3)
    running = replace(running, available=np.full(6, 1e9), jobs=replace(running.jobs, workers=np.array([1, 3] * 3)))
    accelerator = np.array([1.0, 0.0, 0.0])
    found = adjust(
        replace(running, given=running.given + accelerator, peak=running.peak + accelerator), 0.9, times(speed)
    )
    assert [each.workers for each in found] == [-1] * len(found)
    assert all(each.job % 2 for each in found)


@given(st.integers(0, 1000))
def test_a_genetic_search_finds_a_gene_that_there_is(seed):
    rng = np.random.default_rng(seed)
    worth = np.where(rng.random(257) < 0.3, -np.inf, rng.normal(size=257))
    worth[rng.integers(257)] = 0.0
    gene = evolve(worth, rng)
    assert 0 <= gene <= 256
    assert worth[gene] <= worth.max()


def test_a_genetic_search_comes_near_the_best():
    """Half of all first genes are a worker more: the best of the other four of eight would have rank 257 / 5."""
    worth = np.random.default_rng(1).normal(size=257)
    ranks = [(worth > worth[evolve(worth, np.random.default_rng(seed))]).sum() for seed in range(200)]
    assert np.mean(ranks) < 45


def test_a_worker_more_is_left_where_every_other_size_is_slower():
    assert evolve(np.full(257, -np.inf), np.random.default_rng(0)) in range(257)
    for seed in range(10):
        running, _ = drawn(seed)
        found = adjust(running, 0.3, lambda rows, sizes: np.full(sizes.shape[:2], 1e9), search="genetic")
        assert all(each.workers == 1 for each in found)
