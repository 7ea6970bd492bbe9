# mypy: allow-untyped-defs, allow-untyped-decorators
"""Plans of equal cost that are more reliable, or as reliable and shorter in total: moves and swaps, compiled."""

from __future__ import annotations

import numpy as np
from numba import types

from mfcp.compiling import internal, kernel, prepare
from mfcp.matching.kernels.list_schedule import Constraints, occupied, room
from mfcp.matching.problem import EQUAL

prepare(__name__)

_SWEEPS = 50
_f8, _f8_2, _f8_3, _f8_4 = types.f8, types.f8[:, ::1], types.f8[:, :, ::1], types.f8[:, :, :, ::1]
_BATCH = types.NamedTuple((_f8_3, _f8_2, _f8_2, _f8[::1], _f8_4, _f8_3), Constraints)  # type: ignore[no-untyped-call]


@internal
def _end(constraints, i, count, seconds):
    """Seconds until cluster i is done; 0 where it has no task, whatever its backlog."""
    return constraints.backlog[i] + occupied(constraints, i, count, seconds) if count > 0 else 0.0


@internal
def _price_of(constraints, weights, j, i):
    """What task j on cluster i adds to the weighted cost."""
    return weights[2] * constraints.cost[j, i] if len(constraints.cost) else 0.0


@internal
def _better(gain, saved, dearer, value, total):
    """Whether a change is preferred: no dearer, and more reliable, or as reliable and shorter in total."""
    if dearer > EQUAL * value:
        return False
    return gain > EQUAL or (gain >= -EQUAL and saved > EQUAL * total)


@internal
def _occupy(constraints, i, j, sign, used):
    for r in range(len(constraints.use)):
        used[r, i] += sign * constraints.use[r, j, i]


# Over 60 lines: moves and swaps share the state of a plan, and splitting them would pass a dozen values back and forth.
@internal
def _settle(times, reliabilities, weights, constraints, slack, swaps, plan):
    """`settle_rounds` for one round."""
    N, M = times.shape
    load, count, used = np.zeros(M), np.zeros(M, np.int64), np.zeros((len(constraints.use), M))
    for j in range(N):
        load[plan[j]] += times[j, plan[j]]
        count[plan[j]] += 1
        _occupy(constraints, plan[j], j, 1.0, used)
    span, total, value = 0.0, 0.0, 0.0
    for i in range(M):
        span = max(span, _end(constraints, i, count[i], load[i]))
        total += occupied(constraints, i, count[i], load[i])
    for j in range(N):
        value += _price_of(constraints, weights, j, plan[j])
    value += weights[0] * span + weights[1] * total
    most = span * (1.0 + EQUAL)
    if weights[0] == 0.0:
        most = np.inf
    for _ in range(_SWEEPS):
        changed = False
        for j in range(N):
            for k in range(M):
                i = plan[j]
                gain = reliabilities[j, k] - reliabilities[j, i]
                if k == i or gain < -EQUAL or times[j, k] == np.inf:
                    continue
                one, two = load[i] - times[j, i], load[k] + times[j, k]
                if _end(constraints, k, count[k] + 1, two) > most or _end(constraints, i, count[i] - 1, one) > most:
                    continue
                before = occupied(constraints, i, count[i], load[i]) + occupied(constraints, k, count[k], load[k])
                after = occupied(constraints, i, count[i] - 1, one) + occupied(constraints, k, count[k] + 1, two)
                dearer = _price_of(constraints, weights, j, k) - _price_of(constraints, weights, j, i)
                dearer += weights[1] * (after - before)
                if not _better(gain, before - after, dearer, value, total):
                    continue
                if not room(constraints, used, k, j, -1, slack):
                    continue
                load[i], load[k], count[i], count[k] = one, two, count[i] - 1, count[k] + 1
                _occupy(constraints, i, j, -1.0, used)
                _occupy(constraints, k, j, 1.0, used)
                plan[j], changed = k, True
        for j in range(N if swaps else 0):
            for other in range(j + 1, N):
                i, k = plan[j], plan[other]
                if i == k or times[j, k] == np.inf or times[other, i] == np.inf:
                    continue
                gain = reliabilities[j, k] + reliabilities[other, i] - reliabilities[j, i] - reliabilities[other, k]
                if gain < -EQUAL:
                    continue
                one, two = load[i] - times[j, i] + times[other, i], load[k] - times[other, k] + times[j, k]
                if _end(constraints, k, count[k], two) > most or _end(constraints, i, count[i], one) > most:
                    continue
                before = occupied(constraints, i, count[i], load[i]) + occupied(constraints, k, count[k], load[k])
                after = occupied(constraints, i, count[i], one) + occupied(constraints, k, count[k], two)
                dearer = _price_of(constraints, weights, j, k) + _price_of(constraints, weights, other, i)
                dearer -= _price_of(constraints, weights, j, i) + _price_of(constraints, weights, other, k)
                dearer += weights[1] * (after - before)
                if not _better(gain, before - after, dearer, value, total):
                    continue
                if not (room(constraints, used, k, j, other, slack) and room(constraints, used, i, other, j, slack)):
                    continue
                load[i], load[k] = one, two
                for cluster, gone, come in ((i, j, other), (k, other, j)):
                    _occupy(constraints, cluster, gone, -1.0, used)
                    _occupy(constraints, cluster, come, 1.0, used)
                plan[j], plan[other], changed = k, i, True
        if not changed:
            return


# A signature compiles the kernel when its module is imported.
@kernel(types.void(_f8_3, _f8_3, _f8[::1], _BATCH, _f8, types.b1, types.i8[:, ::1]))
def settle_rounds(times, reliabilities, weights, constraints, slack, swaps, plans):
    """Change plans (B, N) that hold in place, while a move or a swap is preferred.

    Args:
        times, reliabilities: (B, N, M), times inf where not allowed.
        weights: (3,) of the objective: makespan, busy seconds, cost.
        constraints: as of `list_schedule.construct`, but cost (B, N, M), or (B, 0, 0), backlog (B, M), use (B, R, N, M)
            and limit (B, R, M); there are no deadlines.
        slack: share of a limit that may be missed.
        swaps: whether pairs of tasks are exchanged as well.
        plans: (B, N).
    """
    c = constraints
    for b in range(len(plans)):
        own = Constraints(c.cost[b], c.backlog[b], c.zeta, c.deadline, c.use[b], c.limit[b])
        _settle(times[b], reliabilities[b], weights, own, slack, swaps, plans[b])
