"""Beliefs to plan by: a few rounds with spread, some pairs missing."""

import numpy as np

from mfcp.rules.base import Belief


def certain(T, A, gamma, *, allowed=None, log_sd=None) -> Belief:
    """A belief of given predictions, without spread but for that of log time."""
    none = np.zeros(T.shape[1])
    spread = none if log_sd is None else log_sd
    return Belief.of(T, A, log_sd=spread, own_sd=spread, a_sd=none, gamma=gamma, allowed=allowed)


def belief(rounds=12, clusters=3, tasks=4, seed=0, log_sd=0.3, own_sd=None, a_sd=0.04, gamma=0.85) -> Belief:
    rng = np.random.default_rng(seed)
    shape = (rounds, clusters, tasks)
    allowed = rng.random(shape) < 0.9
    allowed[:, 0] = True
    own_sd = log_sd if own_sd is None else own_sd
    return Belief.of(
        rng.lognormal(size=shape), rng.uniform(0.7, 1, shape), log_sd=np.full(clusters, log_sd),
        own_sd=np.full(clusters, own_sd), a_sd=np.full(clusters, a_sd), gamma=gamma, allowed=allowed,
    )  # fmt: skip
