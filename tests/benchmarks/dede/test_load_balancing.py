"""Which replicas stay: by a loop over servers, within every limit, and what it does to the moves of a run."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.dede.load_balancing import narrower, published_rounds
from benchmarks.dede.replicas import (
    MEMORY,
    WHIT,
    all_in_use,
    broken,
    first_placement,
    kept,
    planned,
    round_of,
)

SCALE = 1 / 32


def drawn(seed, spare):
    """A round whose placement has spare replicas, and a plan of it that uses some of them and a few new ones."""
    rng = np.random.default_rng(seed)
    placed = first_placement(SCALE)
    free = np.argwhere(~placed)
    placed[tuple(free[rng.choice(len(free), min(spare, len(free)), replace=False)].T)] = True
    placed &= np.cumsum(placed, axis=1) <= MEMORY
    placed |= first_placement(SCALE)
    shards = round_of(placed, rng.random())
    return shards, planned(shards, placed / placed.sum(axis=0))


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.integers(0, 60))
def test_idle_replicas_stay_while_there_is_memory_the_most_loaded_first(seed, spare):
    shards, plan = drawn(seed, spare)
    held = kept(shards, plan, "idle")
    assert (kept(shards, plan, "used") == (plan > 0)).all()
    for server in range(len(held)):
        used = set(np.flatnonzero(plan[server] > 0))
        idle = sorted(set(np.flatnonzero(shards.placed[server])) - used, key=lambda j: (-shards.load[j], j))
        room = max(MEMORY - len(used), 0)
        assert set(np.flatnonzero(held[server])) == used | set(idle[:room])


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.integers(0, 40))
def test_a_plan_with_load_on_every_replica_keeps_the_band(seed, spare):
    shards, _ = drawn(seed, spare)
    inner = narrower(shards)
    plan = planned(inner, shards.placed / shards.placed.sum(axis=0))
    held = kept(shards, plan, "idle")
    shares = all_in_use(plan, held)
    assert shares.sum(axis=0) == pytest.approx(np.ones(len(shards.load)))
    assert ((shares > 0) == held).all()
    assert (shares[held & ~(plan > 0)] <= WHIT).all()
    if not broken(inner, plan):
        # What moves is at most WHIT of each load, of which a server has no more than what the band gave up.
        load = shares @ shards.load
        gained = WHIT * (held / held.sum(axis=0)) @ shards.load
        assert (load <= shards.high + np.maximum(gained - WHIT * shards.low, 0) + 1e-9).all()


def test_what_stays_decides_how_much_moves():
    """The finding: with replicas that stay, a run moves almost nothing after its first rounds, and no limit breaks."""
    runs = {rule: published_rounds(0, rule, SCALE, (6, 10), lambda: None) for rule in ("used", "idle", "strict")}
    assert all(run.broken == 0 for run in runs.values())
    assert np.mean(runs["idle"].moves) <= 0.5 * np.mean(runs["used"].moves)
    assert np.mean(runs["strict"].moves) <= 0.5 * np.mean(runs["used"].moves) + 0.2
