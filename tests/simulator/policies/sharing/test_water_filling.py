"""Water filling, against one job at a time raised by another solver."""

import numpy as np
import pytest
from scipy.optimize import linprog

from mfcp.simulator.policies.base import Policy


def slowly(now):
    """(k,) levels: raise all as far as possible; whoever alone cannot rise further stays; go on with the rest."""
    k, kinds = now.speed.shape
    weight = now.speed / now.equal_split[:, None]
    rows = [np.kron(np.eye(k)[i], np.ones(kinds)) for i in range(k)]
    rows += [np.kron(now.gpus, np.eye(kinds)[j]) for j in range(kinds)]
    room = np.concatenate([np.ones(k), now.size])
    level = [np.kron(np.eye(k)[i], weight[i]) for i in range(k)]
    fixed = {}
    while len(fixed) < k:
        rising = [i for i in range(k) if i not in fixed]
        limits = [np.append(-level[i], float(i in rising)) for i in range(k)]
        bound = [0.0 if i in rising else -fixed[i] for i in range(k)]
        found = linprog(-np.eye(k * kinds + 1)[-1], [*limits, *(np.append(row, 0.0) for row in rows)], [*bound, *room])
        reached = -found.fun
        for one in rising:
            least = [-(reached if i in rising else fixed[i]) + 1e-9 for i in range(k)]
            alone = linprog(-level[one], [*(-np.array(level)), *rows], [*least, *room])
            if -alone.fun <= reached * (1 + 1e-5):
                fixed[one] = reached
    return np.array([fixed[i] for i in range(k)])


@pytest.mark.parametrize("seed", range(8))
def test_every_level_is_as_large_as_it_can_be(moment, seed):
    rng = np.random.default_rng(seed)
    speed = rng.uniform(0.2, 2, (5, 2)) * (rng.random((5, 2)) < 0.8)
    speed[:, 0] += (speed == 0).all(axis=1)
    now = moment(speed, [2, 1], gpus=rng.choice([1, 2], 5) if seed % 2 else np.ones(5, np.int64))
    now = moment(np.where((now.gpus[:, None] <= now.size), now.speed, 0.0) + 1e-12, now.size, gpus=now.gpus)
    share = Policy.build("water_filling").solve(now)
    found = (now.speed * share).sum(axis=1) / now.equal_split
    assert np.sort(found) == pytest.approx(np.sort(slowly(now)), rel=2e-3)
    assert (share.sum(axis=1) <= 1 + 1e-6).all()
    assert (now.gpus @ share <= now.size + 1e-6).all()


def test_jobs_alone_on_their_type_rise_beyond_the_others(moment):
    now = moment([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [1, 1])
    share = Policy.build("water_filling").solve(now)
    assert share == pytest.approx(np.array([[0.5, 0], [0.5, 0], [0, 1]]), abs=1e-3)
