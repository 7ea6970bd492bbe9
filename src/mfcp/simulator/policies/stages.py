"""How long an iteration takes when jobs share accelerators, from how long each resource is busy in one alone.

Three stages: loading, on storage and processors; computing, on accelerators; sending, on the network.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np

from mfcp.arrays import Floats

MOST = 4
"""Jobs that can be interleaved: one for each of storage, processors, accelerators and network."""


def interleaved_s(stages: Floats) -> Floats:
    """(E,) seconds of a cycle in which each job of a group does one iteration, in the best order of the jobs.

    Resources are passed on from job to job in four slots, and each slot is as long as the longest stage in it; loading
    may take two. Zhao et al., "Multi-Resource Interleaving for Deep Learning Training", SIGCOMM 2022, §4.1, as their
    simulator has it.

    Args:
        stages: (E, p, 3) seconds of the p jobs of each of E groups; p from 2 to `MOST`.
    """
    best = np.full(len(stages), np.inf)
    for order in permutations(range(stages.shape[1])):
        best = np.minimum(best, _cycle(stages[:, order]))
    if stages.shape[1] == 2:  # two need not keep to slots: one loads while the other does the rest
        first, second = stages[:, 0], stages[:, 1]
        halves = [np.maximum(one[:, 0], other[:, 1:].sum(axis=1)) for one, other in ((first, second), (second, first))]
        best = np.minimum(best, halves[0] + halves[1])
    return best


def _cycle(stages: Floats) -> Floats:
    """(E,) the second round of slots, when what was loaded in the first is there."""
    count = stages.shape[1]
    end = [np.zeros(len(stages))]
    for slot in range(2 * MOST):
        at = np.zeros(len(stages))
        for resource, ahead, since in ((2, 1, slot), (1, 2, slot), (0, 3, slot - 1)):
            if (place := (slot + ahead) % MOST) < count and since >= 0:
                at = np.maximum(at, end[since] + stages[:, place, resource])
        end.append(at)
    return end[2 * MOST] - end[MOST]


def alongside_s(guest: Floats, host: Floats, step: float) -> float:
    """Seconds of an iteration of a guest that uses only what a host leaves idle; the host is not slowed.

    In each iteration of the host, a resource is idle while the host is on the other two. A guest whose stage ends
    within an iteration may begin its next stage in the same one. As the simulator of Zhao et al., SIGCOMM 2022, has it.

    Args:
        guest, host: (3,) seconds of the stages of each.
        step: seconds of an iteration of the host.

    Returns:
        Infinite if the host leaves nothing of what the guest needs.
    """
    load, compute, send = guest.tolist()
    others = host[1] + host[2], host[0] + host[2], host[0] + host[1]
    if any(own > 0 and idle <= 0 for own, idle in zip((load, compute, send), others, strict=True)):
        return np.inf
    count, rest = _fit(load, others[0])
    if rest > 0:
        compute -= min(compute, host[2], others[0] - rest)
        count += 1
    more, rest = _fit(compute, others[1])
    if rest > 0:
        send -= min(send, others[2] - rest) if rest < host[0] else 0.0
        count += 1
    last, rest = _fit(send, others[2])
    return float((count + more + last + (rest > host[0])) * step)


def _fit(seconds: float, idle: float) -> tuple[float, float]:
    """How often a resource is idle for as long as it is within these seconds, and the rest of them."""
    return divmod(seconds, idle) if seconds > 0 else (0.0, 0.0)
