"""Load balancing's instances, and plans made of shares: repair, routing over given replicas, and fewer replicas.

A plan says which share of a shard's queries each server answers; a server that answers some has a replica. Loads are
whole numbers of 1e-4, so whether given replicas can keep every server within the band is a question of maximum flow:

    source -> shard (its load) -> servers with a replica -> sink (low end of the band, each) and a common rest, up to
    the band's width each, that lets through what the low ends leave of the total.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

SERVERS, SHARDS, EPSILON, MEMORY = 256, 2048, 0.1, 16  # published
UNIT = 1e-4  # loads are multiples of it
LEAST = 0.2  # of the mean load: what less of it carries is not worth a new replica at first
WHIT = 1e-4  # share of a shard's queries that its idle replicas answer together, and of the band
GUIDE = 0.1  # a gain counts this plus ADMM's share: the shares decide between similar gains


@dataclass(frozen=True)
class Shards:
    """Loads (N,), placement (M, N) booleans, and the band's ends."""

    load: np.ndarray
    placed: np.ndarray
    low: float
    high: float


def published_numbers(seed: int) -> Iterator[float]:
    """Uniform numbers of java.util.Random(42 + seed): those of POP's and DeDe's studies where seed is 0."""
    state = (42 + seed) ^ 0x5DEECE66D
    while True:
        bits = []
        for count in (26, 27):
            state = (state * 0x5DEECE66D + 11) % 2**48
            bits.append(state >> (48 - count))
        yield (bits[0] * 2**27 + bits[1]) / 2**53


def kept(shards: Shards, shares: np.ndarray, rule: str) -> np.ndarray:
    """(M, N) replicas that the next round finds: x' where the problem asks for no more than x <= x'.

    Args:
        shards: the round.
        shares: its plan.
        rule: `used`, replicas that answer queries; or `idle`, those and the ones that were there before, the most
            loaded shards first, as far as a server's memory goes.
    """
    used = shares > 0
    if rule == "used":
        return used
    idle = shards.placed & ~used
    room = MEMORY - used.sum(axis=1)
    order = np.argsort(-np.where(idle, shards.load, -1.0), axis=1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(order.shape[1])[None], axis=1)
    return used | (idle & (rank < room[:, None]))


def all_in_use(shares: np.ndarray, held: np.ndarray) -> np.ndarray:
    """(M, N) shares of which every replica that is held has some: the plan within a band that is narrower by `WHIT`."""
    return (1 - WHIT) * shares + WHIT * held / held.sum(axis=0)


def first_placement(scale: float) -> np.ndarray:
    """(M, N) shards dealt out to the servers in turn."""
    M, N = max(round(SERVERS * scale), 4), max(round(SHARDS * scale), 32)
    return np.arange(N) % M == np.arange(M)[:, None]


def round_of(placed: np.ndarray, u: float) -> Shards:
    """The loads of one round on a placement."""
    M, N = placed.shape
    load = np.round(1e6 / (np.arange(N) / N * 1024 + 1) ** (0.25 + 0.5 * u)) / 1e4
    mean = load.sum() / M
    return Shards(load, placed, (1 - EPSILON) * mean, (1 + EPSILON) * mean)


def broken(shards: Shards, shares: np.ndarray) -> bool:
    """Whether a server is out of the band or over its memory."""
    load, tolerance = shares @ shards.load, 1e-9 * shards.high
    outside = (load > shards.high + tolerance) | (load < shards.low - tolerance)
    return bool((outside | ((shares > 0).sum(axis=1) > MEMORY)).any())


def moves(shards: Shards, shares: np.ndarray) -> int:
    """New replicas; one for every shard more where the plan breaks a limit."""
    return int(((shares > 0) & ~shards.placed).sum()) + len(shards.load) * broken(shards, shares)


def planned(shards: Shards, point: np.ndarray) -> np.ndarray:
    """The plan with fewer moves of two that are made from shares (M, N): repaired, or completed; then pruned."""
    plans = [pruned(shards, plan) for plan in (repaired(shards, point), completed(shards, point))]
    return min(plans, key=lambda plan: moves(shards, plan))


def repaired(shards: Shards, point: np.ndarray) -> np.ndarray:
    """Shares near a point, within the band where that succeeds.

    New replicas that carry little are dropped. Then every transfer takes from the server furthest above the band, or
    else from one with most to give, and goes to the one furthest below, or else to one of the emptiest. Replicas that
    exist carry it for nothing; else the shard that is just large enough gets a new one.
    """
    shares = np.maximum(point, 0.0)
    mean = 0.5 * (shards.low + shards.high)
    shares[(~shards.placed & (shares * shards.load < LEAST * mean)) | (shares < 1e-6)] = 0.0
    gone = shares.sum(axis=0) <= 0
    shares[:, gone] = shards.placed[:, gone]
    shares /= shares.sum(axis=0)
    for _ in range(4 * len(shares)):
        load = shares @ shards.load
        if (load.max() <= shards.high and load.min() >= shards.low) or not _transfer(shards, shares, load):
            break
    return shares


def completed(shards: Shards, point: np.ndarray) -> np.ndarray:
    """The placement with new replicas, one by one, across the cut that keeps load from where there is room.

    Of all that would carry load across it, the one that carries most, as far as the point's shares agree.
    """
    from scipy.sparse.csgraph import breadth_first_order

    (M, N), held = shards.placed.shape, shards.placed.copy()
    load = np.rint(shards.load / UNIT)
    while True:
        sent, missing, left = routed(shards, held)
        if not missing:
            return sent / load
        seen = np.zeros(N + M + 3, bool)
        seen[breadth_first_order(left, 0, return_predecessors=False)] = True
        sources, servers = np.where(seen[1 : N + 1], load, 0.0), seen[N + 1 : N + M + 1]
        limit = (shards.low if seen[N + M + 1] else shards.high) / UNIT
        room = np.where(servers | (held.sum(axis=1) >= MEMORY), 0.0, np.maximum(limit - sent.sum(axis=1), 0.0))
        gain = np.where(held, 0.0, np.minimum(np.minimum(sources, missing), room[:, None]) * (GUIDE + point))
        best = int(gain.argmax())
        if gain.flat[best] <= 0:
            return sent / load
        held.flat[best] = True


def pruned(shards: Shards, shares: np.ndarray) -> np.ndarray:
    """The plan without those new replicas, smallest first, that the others and the placement can do without."""
    held, load = (shares > 0) | shards.placed, np.rint(shards.load / UNIT)
    sent, missing, _ = routed(shards, held)
    if missing or (held.sum(axis=1) > MEMORY).any():
        return shares
    new = np.argwhere((sent > 0) & ~shards.placed)
    held = (sent > 0) | shards.placed
    for server, shard in new[np.argsort(sent[tuple(new.T)])]:
        held[server, shard] = False
        now, missing, _ = routed(shards, held)
        if missing:
            held[server, shard] = True
        else:
            sent = now
    return sent / load


def routed(shards: Shards, held: np.ndarray) -> tuple[np.ndarray, int, object]:
    """(M, N) load in units over given replicas, how much finds no way within the band, and the residual graph."""
    from scipy import sparse
    from scipy.sparse.csgraph import maximum_flow

    M, N = held.shape
    load = np.rint(shards.load / UNIT).astype(np.int32)
    low, high, total = int(np.ceil(shards.low / UNIT)), int(shards.high / UNIT), int(load.sum())
    shard, server = np.nonzero(held.T)
    rest, sink = N + M + 1, N + M + 2
    to = np.concatenate([1 + np.arange(N), 1 + N + server, np.tile([rest, sink], M), [sink]])
    capacity = np.concatenate([load, load[shard], np.tile([high - low, low], M), [total - M * low]])
    degree = np.concatenate([[0, N], np.bincount(shard, minlength=N), np.full(M, 2), [1, 0]])
    graph = sparse.csr_matrix(
        (capacity.astype(np.int32), to.astype(np.int32), np.cumsum(degree).astype(np.int32)), (sink + 1, sink + 1)
    )
    result = maximum_flow(graph, 0, sink)
    sent = np.zeros((M, N))
    sent[server, shard] = np.asarray(result.flow[1 + shard, 1 + N + server]).ravel()
    return sent, total - int(result.flow_value), (graph - result.flow).maximum(0)


def _transfer(shards: Shards, shares: np.ndarray, load: np.ndarray) -> bool:
    """Move load between two servers in place; False where no pair helps."""
    over = load.max() > shards.high
    giver = int(load.argmax())
    givers = [giver] if over else np.argsort(-load)[:8]
    takers = np.argsort(load)[:8] if over else [int(load.argmin())]
    for source in givers:
        for target in takers:
            must = max(load[source] - shards.high, shards.low - load[target], 0.0)
            most = min(load[source] - shards.low, shards.high - load[target])
            if source == target or most <= 0:
                continue
            carried = shares[source] * shards.load
            there = shares[target] > 0
            held = there | shards.placed[target]
            full = there.sum() >= MEMORY
            free = np.where(held & (carried > 0) & (there | ~full), carried, 0.0)
            amount = min(max(must, 0.5 * most), most)
            if free.max() > 1e-12 * shards.high:
                shard = int(free.argmax())
            elif not full and carried.max() > 0:
                enough = np.where(carried >= min(must, most), carried, np.inf)
                shard = int(enough.argmin() if np.isfinite(enough).any() else carried.argmax())
            else:
                continue
            part = min(amount, carried[shard])
            if carried[shard] <= most and carried[shard] >= must:
                part = carried[shard]  # a whole shard, which frees memory
            shares[target, shard] += part / shards.load[shard]
            shares[source, shard] -= part / shards.load[shard]
            if shares[source, shard] < 1e-9:
                shares[target, shard] += shares[source, shard]
                shares[source, shard] = 0.0
            return True
    return False
