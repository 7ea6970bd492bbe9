"""Max-min fairness by ADMM, held to the linear program and, step by step, to another solver."""

from dataclasses import replace

import cvxpy
import numpy as np
import pytest

from mfcp.simulator.policies.base import Policy
from mfcp.simulator.policies.sharing.admm import MaxMinBlocks


def least(now, share):
    return ((now.speed * share).sum(axis=1) / now.equal_split).min()


def drawn(moment, rng, jobs, size):
    """Jobs that do not run everywhere, some of them alike, of one to four accelerators."""
    speed = rng.choice([0.0, 0.5, 1.0, 2.0], (jobs, len(size))) * rng.choice([1.0, rng.uniform(0.5, 2)], (jobs, 1))
    speed[np.arange(jobs), rng.integers(0, len(size), jobs)] = 1.0
    return moment(speed, size, gpus=2 ** rng.integers(0, 3, jobs))


def keeps_limits(now, share):
    assert (share >= 0).all()
    assert (share[now.speed == 0] == 0).all()
    assert (share.sum(axis=1) <= 1 + 1e-9).all()
    assert (now.gpus @ share <= now.size + 1e-9).all()


@pytest.mark.parametrize("jobs", [1, 2, 7, 40])
@pytest.mark.parametrize("seed", range(4))
def test_the_least_level_is_that_of_the_linear_program(moment, seed, jobs):
    now = drawn(moment, np.random.default_rng(seed), jobs, [6, 4, 9])
    best = least(now, Policy.build("max_min").solve(now))
    share = Policy.build("max_min_admm").solve(now)
    keeps_limits(now, share)
    assert best * (1 - 1e-3) <= least(now, share) <= best * (1 + 1e-6)


def test_a_reset_goes_on_from_the_last_one(moment):
    rng = np.random.default_rng(0)
    now = drawn(moment, rng, 40, [6, 4, 9])
    short = Policy.build("max_min_admm", iterations=20)
    best = least(now, Policy.build("max_min").solve(now))
    cold, shares = least(now, short.solve(now)), short.watch()
    found = [least(now, shares(now)) for _ in range(12)]
    assert found[0] == cold < 0.97 * best < found[-1]


def test_jobs_that_come_and_go_leave_the_others_where_they_were(moment):
    rng = np.random.default_rng(1)
    now = drawn(moment, rng, 40, [6, 4, 9])
    shares = Policy.build("max_min_admm").watch()
    shares(now)
    for turn in range(4):
        new = drawn(moment, rng, 3, [6, 4, 9])
        kept = np.delete(np.arange(40), rng.choice(40, 3, replace=False))
        now = replace(
            now, job=np.append(now.job[kept], 100 + 3 * turn + np.arange(3)),
            gpus=np.append(now.gpus[kept], new.gpus), speed=np.vstack([now.speed[kept], new.speed]),
        )  # fmt: skip
        share = shares(now)
        keeps_limits(now, share)
        assert least(now, share) >= (1 - 1e-3) * least(now, Policy.build("max_min").solve(now))


def test_both_steps_are_what_another_solver_finds():
    rng = np.random.default_rng(2)
    speed = rng.uniform(0.2, 2, (3, 6)) * rng.choice([0, 1, 1], (3, 6))
    speed[0] = 1.0
    gpus, size = 2.0 ** rng.integers(0, 3, 6), np.array([3.0, 2.0, 4.0])
    blocks, point, rho = MaxMinBlocks(speed, gpus, size), rng.normal(0.3, 0.4, (4, 6)), 2.0

    x, level = cvxpy.Variable((3, 6), nonneg=True), cvxpy.Variable()
    near = cvxpy.sum_squares(x - point[:3]) + cvxpy.sum_squares(level - point[3])
    limits = [x @ gpus <= size, x[speed == 0] == 0]
    cvxpy.Problem(cvxpy.Minimize(-level + rho / 2 * near), limits).solve(solver="CLARABEL")
    mine = blocks.resource_step(point, rho)
    assert mine[:3] == pytest.approx(x.value, abs=1e-5)
    assert mine[3] == pytest.approx(np.full(6, float(level.value)), abs=1e-5)

    x, levels = cvxpy.Variable((3, 6)), cvxpy.Variable(6)
    near = cvxpy.sum_squares(x - point[:3]) + cvxpy.sum_squares(levels - point[3])
    told = cvxpy.sum(cvxpy.multiply(speed / blocks.unit, x), axis=0)
    limits = [cvxpy.sum(x, axis=0) <= 1, levels <= told, x[speed == 0] == 0]
    cvxpy.Problem(cvxpy.Minimize(near), limits).solve(solver="CLARABEL")
    mine = blocks.demand_step(point, rho)
    assert mine[:3] == pytest.approx(x.value, abs=1e-5)
    assert mine[3] == pytest.approx(levels.value, abs=1e-5)
