"""Equations of Qore-DL: what is certain of each."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mfcp.simulator.qore.equations import (
    THRESHOLDS,
    RunningJobs,
    available_time,
    candidates,
    case,
    cluster_load,
    decline_rate,
    execution_time,
    fitness,
    host_load,
    placement_probability,
    priority,
    requirement,
    sensitivity,
    share,
    timeout_degree,
    weights,
    worker_count,
)

seconds_left = st.floats(-100, 0) | st.floats(1e-3, 1e6)
loads = st.lists(st.floats(0, 1), min_size=1, max_size=30)


@given(loads)
def test_placement_is_a_distribution_that_prefers_hosts_with_little_load(values):
    """Eq. 16."""
    load = np.array(values)
    beta = placement_probability(load)
    assert beta.sum() == pytest.approx(1)
    assert ((beta > 0) & (beta <= 1)).all()
    assert (np.diff(beta[np.argsort(load, kind="stable")]) <= 1e-12).all()
    assert all(np.ptp(beta[load == value]) < 1e-12 for value in values)


@pytest.mark.parametrize("hosts", [6, 24, 300])
def test_the_least_loaded_third_takes_nearly_all(hosts):
    beta = placement_probability(np.arange(hosts) / hosts)
    assert beta[: hosts // 3].sum() == pytest.approx(0.954, abs=0.01)


@given(loads)
def test_the_clusters_load_lies_between_the_least_and_the_mean(values):
    """Eq. 1: as hosts with little load count more."""
    load = np.array(values)
    assert load.min() - 1e-12 <= cluster_load(load) <= load.mean() + 1e-12


def test_a_hosts_load_is_weighted():
    """Eq. 17: .7 of the accelerators, or else of CPU, and .3 of the memory; what is unknown leaves it to the others."""
    used = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.5, 0.5, 0.5]])
    for capacity, own in (
        ([8.0, 64.0, 256.0], [0.7, 0.0, 0.3]), ([0.0, 64.0, 256.0], [0.0, 0.7, 0.3]),
        ([8.0, np.inf, np.inf], [1.0, 0.0, 0.0]), ([0.0, 64.0, np.inf], [0.0, 1.0, 0.0]),
    ):  # fmt: skip
        weight = weights(np.array(capacity))
        assert weight == pytest.approx(own)
        assert host_load(used, weight) == pytest.approx([*own, 0.5])


def test_a_share_of_what_is_not_there_or_not_known_is_nothing():
    needs = np.array([[1.0, 2.0, 3.0]])
    assert share(needs, np.array([4.0, 0.0, np.inf])).tolist() == [[0.25, 0, 0]]


@given(st.floats(1, 1e5), st.floats(1e-3, 100), seconds_left, st.floats(0, 1))
def test_as_many_workers_as_meet_the_deadline_within_what_the_load_allows(iterations, seconds, available, load):
    """Eq. 5."""
    workers, servers = (int(n[0]) for n in worker_count(*map(np.atleast_1d, (iterations, seconds, available)), load))
    most, each = (5, 2) if load < 0.4 else (4, 3) if load < 0.7 else (2, 4)
    assert 1 <= workers <= most
    assert servers == -(-workers // each)
    if available > 0:
        assert workers == most or workers * available >= iterations * seconds * (1 - 1e-12)
        assert workers == 1 or (workers - 1) * available < iterations * seconds
    else:
        assert workers == most


def test_requirements_are_parts_of_the_cluster():
    """Eqs. 6 and 7: two workers of a tenth of all CPU and a twentieth of all memory, one server of half of that."""
    capacity = np.array([0.0, 100.0, 1000.0])
    worker, server = np.array([[0.0, 10.0, 50.0]]), np.array([[0.0, 5.0, 25.0]])
    need = requirement(np.array([2]), np.array([1]), worker, server, capacity)
    assert need == pytest.approx([2.5 * (0.7 * 0.1 + 0.3 * 0.05)])
    assert requirement(np.array([1]), np.array([0]), capacity[None], capacity[None], capacity) == pytest.approx([1.0])


def test_time_that_is_left():
    """Eq. 9: of 100 s from second 20 on, at second 50 and at second 150."""
    assert [available_time(np.array([100.0]), np.array([20.0]), now)[0] for now in (50, 150)] == [70, -30]


@given(st.lists(st.tuples(st.floats(0.01, 1), seconds_left), min_size=2, max_size=8), st.floats(0, 1))
def test_urgent_jobs_come_first_and_size_counts_by_load(jobs, load):
    """Eq. 8."""
    need, available = np.array(jobs).T
    ranked = priority(need, available, load)
    late, early = available <= 0, available > 0
    if late.any() and early.any():
        assert ranked[late].min() > ranked[early].max()
    for i in range(len(jobs)):
        for j in range(len(jobs)):
            if need[i] == need[j] and available[i] < available[j] - 1e-6:
                assert ranked[i] >= ranked[j]
            if available[i] == available[j] > 0 and need[i] > need[j]:
                assert (ranked[i] >= ranked[j]) == (load <= THRESHOLDS[0]) or ranked[i] == ranked[j]


def test_a_curve_that_flattens_declines_less():
    """Eq. 10: a tenth a step; nothing; too short to tell; only the last 30 count, whatever the scale."""
    steady = 0.9 ** np.arange(40)
    assert decline_rate(steady) == pytest.approx(0.1)
    assert decline_rate(np.ones(40)) == 0
    assert decline_rate([1.0]) == np.inf
    assert decline_rate(np.concatenate([np.full(50, 9.0), np.full(30, 2.0)])) == 0
    assert decline_rate(1000 * steady) == pytest.approx(decline_rate(steady))


@given(st.floats(1, 1e4), st.floats(0.01, 100), st.floats(1, 1e5))
def test_jobs_that_will_be_late_have_a_positive_degree(remaining, seconds, available):
    """Eqs. 11 and 12."""
    need = execution_time(np.array([remaining]), np.array([seconds]))
    degree = timeout_degree(need, np.array([available]))[0]
    assert np.sign(degree) == np.sign(remaining * seconds - available)
    assert timeout_degree(need * 2, np.array([available]))[0] >= degree
    assert timeout_degree(need, np.array([np.inf])) == -1


def running(**changes):
    one = {"seconds": 10.0, "total": 100.0, "done": 20.0, "remaining": 80.0, "workers": 2, "need": 0.1} | changes
    return RunningJobs(**{name: np.array([value]) for name, value in one.items()})


def test_the_better_way_to_grow_counts_and_the_cheaper_way_to_shrink():
    """Eq. 13: a worker more leaves 100 · 2 / 3 - 20 of 80 iterations; one less, 180."""
    jobs = running()
    out = 10 * (1 - (100 * 2 / 3 - 20) / 80) / 0.1
    assert sensitivity(jobs, np.array([9.9]), grows=True) == pytest.approx([out])
    assert sensitivity(jobs, np.array([1.0]), grows=True) == pytest.approx([9.0 / 0.1])
    away = 10 * (180 / 80 - 1) / 0.1
    assert sensitivity(jobs, np.array([10.5]), grows=False) == pytest.approx([0.5 / 0.1])
    assert sensitivity(jobs, np.array([100.0]), grows=False) == pytest.approx([away])
    assert sensitivity(running(need=0.2), np.array([1.0]), grows=True) == pytest.approx([9.0 / 0.2])
    assert sensitivity(running(workers=1), np.array([10.5]), grows=False) == pytest.approx([0.5 / 0.1])


@pytest.mark.parametrize(
    ("timeout", "load", "which", "grow", "shrink"),
    [
        ([0.5, -0.1, 0.2, -0.3], 0.3, "grow late", [2, 0], []),
        ([0.5, -0.1, 0.2, -0.3], 0.6, "grow late, shrink early", [2, 0], [3, 1]),
        ([-0.5, -0.1, -0.2, -0.3], 0.2, "grow", [1, 2, 0], []),
        ([-0.5, -0.1, -0.2, -0.3], 0.8, "shrink", [], [3, 0, 2]),
        ([-0.5, -0.1, -0.2, -0.3], 0.5, "nothing", [], []),
    ],
)
def test_the_four_cases(timeout, load, which, grow, shrink):
    timeout, sensitive = np.array(timeout), np.array([2.0, 4.0, 3.0, 1.0])
    assert case(timeout, load) == which
    assert [rows.tolist() for rows in candidates(timeout, sensitive, case(timeout, load))] == [grow, shrink]


def test_fitness_is_time_saved_or_sensitivity_or_its_inverse():
    """Eq. 15."""
    timeout, saved, sensitive = np.array([1.0, -1.0]), np.array([30.0, 20.0]), np.array([4.0, 5.0])
    found = {which: fitness(which, timeout, saved, sensitive).tolist()
             for which in ("grow late", "grow late, shrink early", "grow", "shrink")}  # fmt: skip
    assert found == {
        "grow late": [30, 20], "grow late, shrink early": [30, 0.2], "grow": [4, 5], "shrink": [0.25, 0.2],
    }  # fmt: skip
