"""Seconds of an iteration of jobs that share accelerators, against slow references."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfcp.simulator.policies.stages import alongside_s, interleaved_s

SECONDS = st.one_of(st.just(0.0), st.floats(0.01, 10))
JOB = st.tuples(SECONDS, SECONDS, SECONDS).filter(lambda stages: sum(stages) > 0)
HOST = st.tuples(*[st.integers(0, 3)] * 3).filter(lambda stages: sum(each > 0 for each in stages) > 1)
GUEST = st.tuples(st.integers(-1, 5), st.integers(0, 5), st.integers(-1, 5))  # -1: not at all; all compute


def second_round(jobs):
    """Ends of eight slots by what each job has to wait for: the slot before, and for loading the one before that."""
    end = [0.0]
    for slot in range(8):
        ready = [0.0]
        for place, (load, compute, send) in enumerate(jobs):
            turn = (place - slot) % 4
            if turn == 1:
                ready.append(end[slot] + send)
            elif turn == 2:
                ready.append(end[slot] + compute)
            elif turn == 3 and slot > 0:
                ready.append(end[slot - 1] + load)
        end.append(max(ready))
    return end[8] - end[4]


@settings(max_examples=200)
@given(st.lists(JOB, min_size=2, max_size=4))
def test_a_cycle_is_that_of_the_best_order(jobs):
    expected = min(second_round(order) for order in permutations(jobs))
    if len(jobs) == 2:
        (a, b, c), (d, e, f) = jobs
        expected = min(expected, max(a, e + f) + max(d, b + c))
    assert interleaved_s(np.array([jobs, jobs[::-1]])) == pytest.approx([expected] * 2, rel=1e-12)


@settings(max_examples=200)
@given(st.lists(JOB, min_size=2, max_size=4))
def test_a_cycle_is_no_shorter_than_what_one_job_or_one_resource_takes(jobs):
    stages = np.array(jobs)
    cycle = interleaved_s(stages[None])[0]
    assert cycle >= stages[:, 1:].sum(axis=0).max() * (1 - 1e-12)  # accelerators and network serve one after another
    assert cycle >= stages.sum(axis=1).max() * (1 - 1e-12)
    assert cycle <= stages.sum() * (1 + 1e-12)


def test_jobs_that_use_different_resources_take_no_longer_together():
    loads, computes, sends = [4.0, 0, 0], [0, 4.0, 0], [0, 0, 4.0]
    assert interleaved_s(np.array([[loads, computes], [computes, sends]])).tolist() == [4.0, 4.0]
    assert interleaved_s(np.array([[computes, computes]])).tolist() == [8.0]


def ticks(guest, host):
    """The same by ticks: a guest goes on wherever the host is on another resource."""
    now, begun = 0, 0
    phases = [resource for resource in range(3) for _ in range(host[resource])]
    for resource in range(3):
        begun = now
        left = guest[resource]
        while left:
            left -= phases[now % len(phases)] != resource
            now += 1
    whole, rest = divmod(now, len(phases))
    sends_from_its_start = guest[2] > 0 and begun <= whole * len(phases)
    return whole + (
        rest > host[0] if sends_from_its_start else rest > 0
    )  # the guest loads again when the host computes


@settings(max_examples=400)
@given(guest=GUEST, host=HOST)
def test_a_guest_waits_for_whole_iterations_of_its_host(guest, host):
    """No stage of the guest ends with a stage of the host: there the model rounds, and ticks do not."""
    guest = tuple(16 * whole + part if whole >= 0 else 0 for whole, part in zip(guest, (1, 2, 4), strict=True))
    host = tuple(16 * whole for whole in host)
    assert alongside_s(np.array(guest, float), np.array(host, float), 7.0) == 7.0 * ticks(guest, host)


def test_a_host_that_leaves_nothing_idle():
    """One that only computes lets a guest load and send, but never compute."""
    host = np.array([0.0, 2.0, 0.0])
    assert alongside_s(np.array([3.0, 0.0, 1.0]), host, 2.0) == 2.0 * 3
    assert alongside_s(np.array([3.0, 0.1, 1.0]), host, 2.0) == np.inf
