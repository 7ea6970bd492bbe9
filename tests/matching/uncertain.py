"""Rounds of which only moments are known, and what a plan of them costs."""

import numpy as np

from mfcp.matching import expected
from mfcp.matching.expected import (
    Moments,
)
from mfcp.matching.speedup import SpeedUp


def moments(seed=0, rounds=20, clusters=3, tasks=5, spread=0.3, zeta=None, backlog=0.0):
    rng = np.random.default_rng(seed)
    shape = (rounds, clusters, tasks)
    time = rng.lognormal(size=shape)
    allowed = rng.random(shape) < 0.9
    allowed[:, 0] = True
    return Moments(
        time=time,
        time_variance=(spread * time) ** 2,
        reliability=rng.uniform(0.6, 1, shape),
        reliability_variance=np.full(shape, (spread / 10) ** 2),
        gamma=np.full(rounds, 0.85),
        allowed=allowed,
        zeta=zeta,
        backlog=backlog * rng.lognormal(size=shape[:2]) if backlog else None,
    )


def cost_of(m, plan, unit, price=4.0):
    """Expected cost of plans (B, N) from the readable formulas."""
    onehot = plan[:, None] == np.arange(m.time.shape[1])[:, None]
    totals = [np.where(onehot, values, 0.0).sum(axis=-1)[..., None] for values in expected.channels(m)]
    span, short = expected.score(totals, m, unit, None)
    return (span + price * short)[:, 0]


def curve(clusters, tasks):
    return SpeedUp().table(clusters, tasks)
