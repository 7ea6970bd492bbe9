"""What of a table of times is a task's and what a cluster's, by least squares of their logarithms."""

from __future__ import annotations

import numpy as np

from mfcp.arrays import Floats, Ints


def cluster_effects(T: Floats) -> tuple[Floats, Ints]:
    """(M,) least-squares effect of each cluster on log T, mean 0 in each group, and (M,) the group.

    log T_ij = task_j + cluster_i over known pairs: with the tasks eliminated a Laplacian system in the clusters,
    whose connected components are the groups.
    """
    from scipy.sparse.csgraph import connected_components

    known = np.isfinite(T).astype(np.float64)
    log = np.where(known > 0, np.log(np.where(known > 0, T, 1.0)), 0.0)
    count = np.maximum(known.sum(axis=0), 1.0)
    laplacian = np.diag(known.sum(axis=1)) - (known / count) @ known.T
    right = (log - known * (log.sum(axis=0) / count)).sum(axis=1)
    groups = connected_components(known @ known.T > 0, directed=False)[1].astype(np.int64)
    together = groups[:, None] == groups
    # A constant in each group is what times cannot tell: the mean over the group, added, makes it 0. A pseudo-inverse
    # would have to tell those directions by their eigenvalues, which rounding leaves at 1e-13 of either sign.
    effects: Floats = np.linalg.solve(laplacian + together / together.sum(axis=0), right)
    return effects, groups


def task_effects(T: Floats) -> Floats:
    """(n,) mean log T of each task once the clusters' effects are taken out, nan where nothing is known."""
    known = np.isfinite(T)
    left = np.where(known, np.log(np.where(known, T, 1.0)) - cluster_effects(T)[0][:, None], 0.0)
    count = known.sum(axis=0)
    result: Floats = np.where(count > 0, left.sum(axis=0) / np.maximum(count, 1), np.nan)
    return result
