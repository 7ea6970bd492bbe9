"""The chance rule keeps its promise with the stated probability, under its own belief."""

import numpy as np
from rules.beliefs import belief
from scipy import stats

from mfcp.matching.integer.enumeration import all_plans
from mfcp.rules.chance import Chance


def promise(A, a_sd, plan, gamma):
    """P(mean reliability >= gamma) of independent normal reliabilities."""
    tasks = np.arange(len(plan))
    deviation = np.sqrt((a_sd[plan, tasks] ** 2).sum()) / len(plan)
    return stats.norm.sf(gamma, A[plan, tasks].mean(), deviation)


def test_plans_keep_the_promise_wherever_one_can():
    believed, alpha = belief(gamma=0.85), 0.1
    plans = Chance(alpha=alpha).plan(believed, parameter=0.0, price=4.0)
    kept = 0
    for A, a_sd, allowed, plan in zip(believed.A, believed.a_sd, believed.allowed, plans, strict=True):
        possible = max(
            promise(A, a_sd, other, 0.85) for other in all_plans(3, 4)[0] if allowed[other, np.arange(4)].all()
        )
        if possible >= 1 - alpha:
            assert promise(A, a_sd, plan, 0.85) >= 1 - alpha - 1e-9
            kept += 1
    assert kept >= 4


def test_a_surer_promise_is_slower():
    believed = belief(rounds=40, gamma=0.85)
    spans = []
    for alpha in (0.5, 0.02):
        plan = Chance(alpha=alpha).plan(believed, parameter=0.0, price=4.0)
        times = np.take_along_axis(believed.T, plan[:, None], axis=1)[:, 0]
        loads = [np.where(plan == i, times, 0.0).sum(axis=1) for i in range(3)]
        spans.append(np.max(loads, axis=0).mean())
    assert spans[1] > spans[0]
