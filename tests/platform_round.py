"""A round with beliefs, its plan, and what it costs, one cluster after another."""

import numpy as np

from mfcp.matching.expected import expected_plans
from mfcp.matching.normal import expected_maximum, expected_shortfall
from mfcp.platform.deciding.explaining import explain
from mfcp.rules.base import Belief
from mfcp.rules.expected_cost import ExpectedCost, moments_of

PRICE = 4.0


def belief(clusters=4, tasks=7, seed=0, spread=0.3, gamma=0.92, zeta=None, backlog=None):
    rng = np.random.default_rng(seed)
    shape = (1, clusters, tasks)
    T = rng.lognormal(6, 0.5, (1, 1, tasks)) * rng.lognormal(0, 0.4, shape)
    allowed = rng.random(shape) < 0.85
    allowed[:, 0] = True
    sd, a_sd = np.full(shape, spread), np.full(shape, spread / 10)
    return Belief(T, rng.uniform(0.8, 1, shape), sd, sd, a_sd, np.array([gamma]), allowed, zeta, backlog=backlog)


def planned(believed):
    return ExpectedCost().plan(believed, parameter=0.0, price=PRICE)[0]


def names(believed):
    _, clusters, tasks = believed.T.shape
    return {"cluster_id": [f"c{i}" for i in range(clusters)], "task_id": [f"t{j}" for j in range(tasks)]}


def explained(believed, plan, **how):
    return explain(believed, plan, **names(believed), price=PRICE, **how)


def cost(believed, plan, unit):
    """Expected cost of one plan and its expected makespan, one cluster after another."""
    moments = moments_of(believed, 0.0)
    own = [plan == i for i in range(believed.T.shape[1])]
    factor = [1.0 if believed.zeta is None else believed.zeta[i, mine.sum()] for i, mine in enumerate(own)]
    waits = [
        0.0 if believed.backlog is None or not mine.any() else believed.backlog[0, i] for i, mine in enumerate(own)
    ]
    loads = [
        wait + f * moments.time[0, i, mine].sum()
        for i, (f, mine, wait) in enumerate(zip(factor, own, waits, strict=True))
    ]
    spread = [
        f**2 * moments.time_variance[0, i, mine].sum() for i, (f, mine) in enumerate(zip(factor, own, strict=True))
    ]
    span = float(expected_maximum(np.array(loads)[None, :, None], np.array(spread)[None, :, None])[0, 0])
    each = np.arange(len(plan))
    missing = expected_shortfall(
        moments.reliability[0, plan, each].mean() - moments.gamma[0],
        np.sqrt(moments.reliability_variance[0, plan, each].sum()) / len(plan),
    )
    return span / unit + PRICE * float(missing), span


def unit_of(believed):
    """Seconds of a makespan, as the rule that plans has them."""
    return float(expected_plans(moments_of(believed, 0.0), price=PRICE).unit[0])


def moved(plan, task, cluster):
    return np.where(np.arange(len(plan)) == task, cluster, plan)
