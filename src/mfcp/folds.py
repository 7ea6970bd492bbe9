"""Folds for cross-validation that keep groups, such as model families, together."""

from __future__ import annotations

import numpy as np

from mfcp.arrays import Bools, Ints, Texts


def group_folds(group: Texts, count: int, rng: np.random.Generator) -> Ints:
    """(n,) fold of each task; every group lies in one fold, and folds are of nearly the same size.

    Groups go, largest first and in random order where sizes are equal, to the fold with the fewest tasks so far. With
    fewer groups than folds some folds stay empty.

    Args:
        group: (n,) what is kept together.
        count: number of folds.
        rng: of the order.
    """
    names, index, size = np.unique(group, return_inverse=True, return_counts=True)
    order = rng.permutation(len(names))
    order = order[np.argsort(-size[order], kind="stable")]
    filled = np.zeros(count)
    fold = np.empty(len(names), np.int64)
    for name in order:
        fold[name] = filled.argmin()
        filled[fold[name]] += size[name]
    result: Ints = fold[index]
    return result


def training_folds(group: Texts, train: Bools, count: int, seeds: tuple[int, ...]) -> Ints:
    """(S, n) fold of each training task under each seed, by `group_folds`; -1 for all other tasks.

    Args:
        group: (n,) what is kept together.
        train: (S, n) which tasks are training tasks.
        count: number of folds.
        seeds: S of them.
    """
    result = np.full(train.shape, -1)
    for s, seed in enumerate(seeds):
        result[s, train[s]] = group_folds(group[train[s]], count, np.random.default_rng([seed, 7]))
    return result
