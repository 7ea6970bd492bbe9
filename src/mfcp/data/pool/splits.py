"""What is drawn of a pool: settings of M clusters, splits by family; and what a report says of it."""

from __future__ import annotations

import hashlib
import itertools
import math
import re
import string
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfcp.arrays import Bools, Floats, Ints, Texts
from mfcp.data.pool.effects import cluster_effects, task_effects
from mfcp.data.pool.task_pool import TaskPool
from mfcp.errors import DataError

FEWEST_FAMILIES = 12
"""With fewer families a split by family leaves parts of one or two kinds of model: split by source task instead."""

_ORIGINS = ("adv", "cs", "dm", "ens", "gluon", "ig", "legacy", "ssl", "swsl", "tf", "tv")
"""First words that say where a model's weights come from, not which model it is."""


def family_of(model: str) -> str:
    """The first word of a model's name: letters before a version, digit, dash or underscore; 'resnet-18' → 'resnet'.

    Words for an origin of weights (tf_efficientnet, tv_resnet, …) are passed over, or a model would be in
    training under one name and in test under another.
    """
    words = re.split(r"[_\-\s./@]+", model.strip().lower())
    while len(words) > 1 and words[0] in _ORIGINS:
        words = words[1:]
    found = re.match(r"[^\W\d]+?(?=v?\d|$)", words[0])
    return found.group() if found else model


def split_tasks(pool: TaskPool, seed: int, fractions: tuple[float, ...] = (0.6, 0.15, 0.25)) -> NDArray[np.int8]:
    """(n,) part of each task, by default 0 train, 1 validation, 2 test; a family lies in one part.

    Families are dealt in random order, each to the part that lacks most tasks of its share; so the parts come
    as close to `fractions` as the sizes of families allow.

    Args:
        pool: tasks with their family.
        seed: of the order.
        fractions: shares of the parts, summing to 1.

    Raises:
        DataError: fewer groups than parts.
    """
    group = split_groups(pool)
    names, index, sizes = np.unique(group, return_inverse=True, return_counts=True)
    if len(names) < len(fractions):
        raise DataError(
            f"{len(names)} model families or tasks cannot fill {len(fractions)} parts (train, validation, …); "
            f"profile at least {len(fractions)} different tasks"
        )
    rng = np.random.default_rng([seed, 0x5B117])
    order = rng.permutation(len(names))
    large = sizes[order] > min(fractions) * len(group)
    order = np.concatenate([order[large], order[~large]])  # large ones are dealt while every part still has room
    missing = np.array(fractions) * len(group)
    part = np.zeros(len(names), np.int8)
    for position, g in enumerate(order):
        empty = [p for p in range(len(fractions)) if p not in part[order[:position]]]
        # The last families go to parts that are still empty.
        choices = empty if len(order) - position <= len(empty) else list(range(len(fractions)))
        share = missing[choices] / np.array(fractions)[choices]
        chosen = choices[int(np.argmax(share))]
        part[g] = chosen
        missing[chosen] -= sizes[g]
    result: NDArray[np.int8] = part[index]
    return result


def split_groups(pool: TaskPool) -> Texts:
    """(n,) what a split keeps together: the family, or the source task where there are few families."""
    if len(np.unique(pool.family)) >= FEWEST_FAMILIES:
        # A source task lies in one family by construction, so replicas stay together.
        return pool.family
    return pool.source_task


def held_out_tasks(pool: TaskPool, share: float, names: Sequence[str] = (), *, draw: int = 0) -> Bools:
    """(n,) tasks of groups that a split keeps together and that are held out; for every seed the same.

    Groups are in the order of a hash of their names. So a log that grows keeps most of what it held out.

    Args:
        pool: tasks with their family.
        share: of the groups, at least one.
        names: groups that are held out instead, for good, as far as the log has some of them.
        draw: 0 for these; any other number draws the share among all other groups.
    """
    group = split_groups(pool)
    known = np.unique(group)
    count = max(1, round(share * len(known)))
    named = known[np.isin(known, list(names))]
    for_good = named if len(named) else _hashed(known, "")[:count]
    drawn = for_good if draw == 0 else _hashed(known[~np.isin(known, for_good)], f"{draw} ")[:count]
    held: Bools = np.isin(group, drawn)
    return held


def _hashed(names: Texts, salt: str) -> Texts:
    """Names in the order of their hashes."""
    order = np.argsort([hashlib.sha256(f"{salt}{name}".encode()).hexdigest() for name in names], kind="stable")
    result: Texts = names[order]
    return result


def draw_settings(
    pool: TaskPool, count: int, clusters: int, seed: int, *, after: int = 0
) -> dict[str, tuple[int, ...]]:
    """`count` different sets of M clusters that share enough tasks, named A, B, C, …

    A set qualifies when the tasks measured on at least two of its clusters number at least half of those of the
    best set, and every two of its clusters share a task; on a log of training and inference clusters the
    two never mix.

    Args:
        pool: the pool.
        count: settings to draw, at most 26.
        clusters: M.
        seed: of the draw.
        after: leave out so many sets, which are drawn first, and take those with the fewest of their clusters.

    Returns:
        name → cluster indices in ascending order.

    Raises:
        DataError: fewer sets qualify than asked for.
    """
    good = qualifying_sets(pool, clusters, seed)
    if after + count > min(len(good), len(string.ascii_uppercase)):
        raise DataError(
            f"{len(good)} sets of {clusters} of the pool's {len(pool.cluster_id)} clusters share enough tasks, "
            f"{after + count} settings asked; lower the number of settings (at most 26) or of clusters"
        )
    order = np.random.default_rng([seed, 0x5E77]).permutation(len(good))
    used = {cluster for p in order[:after] for cluster in good[p]}
    picked = sorted(order[after:], key=lambda p: len(used.intersection(good[p]))) if after else order
    return {string.ascii_uppercase[after + k]: good[p] for k, p in enumerate(picked[:count])}


def qualifying_sets(pool: TaskPool, clusters: int, seed: int) -> list[tuple[int, ...]]:
    """The sets of M clusters that share enough tasks, see `draw_settings`."""
    candidates = _candidates(len(pool.cluster_id), clusters, seed)
    scores = _common_tasks(pool, candidates)
    best = scores.max(initial=0)
    return [c for c, score in zip(candidates, scores, strict=True) if score > 0 and score >= best / 2]


def _candidates(m: int, clusters: int, seed: int) -> list[tuple[int, ...]]:
    """All sets of M clusters in order, or 20,000 random draws where there are more."""
    limit = 20_000
    if math.comb(m, clusters) <= limit:
        return list(itertools.combinations(range(m), clusters))
    rng = np.random.default_rng([seed, 0xCA4D])
    drawn = {tuple(sorted(map(int, rng.choice(m, clusters, replace=False)))) for _ in range(limit)}
    return sorted(drawn)


def _common_tasks(pool: TaskPool, sets: list[tuple[int, ...]]) -> Ints:
    """(sets,) tasks measured on at least two clusters of each set; 0 where two of its clusters share none."""
    allowed = pool.allowed.astype(np.float32)
    share_any = allowed @ allowed.T > 0
    counts = [int((pool.allowed[list(c)].sum(axis=0) >= 2).sum()) if share_any[np.ix_(c, c)].all() else 0 for c in sets]
    return np.array(counts, np.int64)


def describe(pool: TaskPool) -> dict[str, Any]:
    """What a report says about a pool, as plain JSON values.

    `interaction_share` is the part of the variance of log time that neither a task nor a cluster effect
    explains: what matching can win.
    """
    A = pool.A[pool.allowed]
    per_cluster = [float(np.mean(a[ok])) for a, ok in zip(pool.A, pool.allowed, strict=True) if ok.any()]
    times = pool.T[pool.allowed]
    return {
        "tasks": len(pool.task_id),
        "source_tasks": len(np.unique(pool.source_task)),
        "families": len(np.unique(pool.family)),
        "clusters": len(pool.cluster_id),
        "filled_share": float(pool.allowed.mean()),
        "interaction_share": interaction_share(np.where(pool.allowed, pool.T, np.nan)),
        "seconds": {"median": float(np.median(times)), "min": float(times.min()), "max": float(times.max())},
        "reliability": {"mean": float(A.mean()), "min": float(A.min()), "max": float(A.max())},
        "cluster_reliability": {"min": min(per_cluster), "max": max(per_cluster)},
        "runs_per_pair": float(np.median(pool.runs[pool.allowed])),
        "emulated": list(pool.emulated),
        "notes": list(pool.notes),
    }


def interaction_share(T: Floats) -> float:
    """Residual share of the variance of log T (M, n; nan unknown) after task and cluster effects."""
    known = np.isfinite(T)
    log = np.log(np.where(known, T, 1.0))
    residual = (log - cluster_effects(T)[0][:, None] - task_effects(T))[known]
    total = log[known] - log[known].mean()
    return float((residual**2).sum() / max((total**2).sum(), 1e-300))
