"""Checks at the border of matching: arrays of the right shape and range, or an error that names round and entry."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfcp.arrays import Bools, Floats
from mfcp.errors import DataError, InfeasibleError


def numbers(value: ArrayLike, name: str, kind: type[np.generic] = np.float64) -> NDArray[Any]:
    """An array of this kind, by default float64."""
    try:
        return np.asarray(value, kind)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} is not a numeric array: {error}") from None


def broadcast(value: ArrayLike, name: str, shape: tuple[int, ...], kind: type[np.generic]) -> NDArray[Any]:
    """An array of this kind and shape, as a view where it was smaller."""
    array = numbers(value, name, kind)
    try:
        return np.broadcast_to(array, shape)
    except ValueError:
        raise DataError(f"{name} must have shape {shape} or what broadcasts to it, got {array.shape}") from None


def in_time(
    times: Floats, mask: Bools, zeta: Floats | None, backlog: Floats | None, due: Floats, slack: float
) -> Bools:
    """(..., M, N) the pairs that are allowed and end in time where the task runs alone.

    Raises:
        InfeasibleError: a task without such a pair.
    """
    ends = times if zeta is None else times * zeta[:, 1:].min(axis=1)[:, None]
    ends = ends if backlog is None else ends + backlog[..., None]
    kept: Bools = mask & (ends <= due[..., None, :] * (1.0 + slack))
    check_placeable(kept, mask, ends, due)
    return kept


def check_placeable(
    mask: Bools, before: Bools | None = None, ends: Floats | None = None, due: Floats | None = None
) -> None:
    """Raise where a task has no cluster; with the last three, where it had one before its deadline closed them."""
    nowhere = ~mask.any(axis=-2)
    if not nowhere.any():
        return
    *where, task = np.argwhere(nowhere)[0]
    here = f"{round_name(where)}task {task} has no allowed cluster"
    if before is None or ends is None or due is None or not before[(*where, slice(None), task)].any():
        raise InfeasibleError(f"{here}; allow one or drop the task")
    soonest = ends[(*where, slice(None), task)][before[(*where, slice(None), task)]].min()
    raise InfeasibleError(
        f"{here} that meets its deadline of {due[(*where, task)]:.6g} s: even alone it is not done before "
        f"{soonest:.6g} s; move the deadline or drop the task"
    )


def matrix(value: ArrayLike, name: str) -> Floats:
    """(..., M, N) with M, N >= 1; float32 stays so."""
    array = np.asarray(value) if isinstance(value, np.ndarray) else numbers(value, name)
    if array.dtype != np.float32:
        array = numbers(array, name)
    if array.ndim < 2 or 0 in array.shape:
        raise DataError(f"{name} must have shape (..., M, N) with M, N >= 1, got {array.shape}")
    return array


def curve_of(zeta: ArrayLike, clusters: int, tasks: int) -> Floats:
    """(M, N + 1) factors of parallel execution, from one row for all clusters or a row for each."""
    curve = numbers(zeta, "zeta")
    if curve.ndim not in (1, 2) or curve.shape[-1] != tasks + 1 or curve.shape[:-1] not in ((), (clusters,)):
        raise DataError(f"zeta must have shape (M, N + 1) = ({clusters}, {tasks + 1}) or (N + 1,), got {curve.shape}")
    if not (np.isfinite(curve) & (curve > 0)).all():
        raise DataError("zeta must hold positive finite factors")
    return np.broadcast_to(curve, (clusters, tasks + 1)).copy()


def vector(value: ArrayLike, name: str, shape: tuple[int, ...], expected: str, good: Any) -> Floats:
    """An array of this shape with entries of at least 0 that are `good`."""
    array = broadcast(value, name, shape, np.float64)
    bad = ~good(array) | (array < 0)
    if bad.any():
        *where, at = np.argwhere(bad)[0]
        raise DataError(f"{round_name(where)}{name}[{at}] = {array[(*where, at)]}: expected at least 0 {expected}")
    return array


def check_entries(values: Floats, mask: Bools, name: str, expected: str, wrong: Any) -> None:
    """Raise where an entry that is allowed is `wrong`."""
    extremes = np.array([values.min(), values.max()])  # nan if any is; spares large problems an array of flags
    if not wrong(extremes).any():
        return
    bad = wrong(values) & mask
    if bad.any():
        *where, cluster, task = np.argwhere(bad)[0]
        seen = values[(*where, cluster, task)]
        raise DataError(f"{round_name(where)}{name}[{cluster}, {task}] = {seen}: expected {expected}")


def full(mask: Bools) -> bool:
    """Whether a mask is one True, broadcast: no entry needs to be looked at."""
    return not any(mask.strides) and bool(mask.flat[0])


def shut(values: Floats, mask: Bools, fill: float) -> Floats:
    """Values with `fill` where not allowed, in their own precision."""
    return values if mask.all() else np.where(mask, values, np.array(fill, values.dtype))


def raw(kind: type[Any], **values: Any) -> Any:
    """A frozen dataclass with fields that are known to be valid, without its checks and copies."""
    made = object.__new__(kind)
    for key, value in values.items():
        object.__setattr__(made, key, value)
    return made


def round_name(where: Any) -> str:
    """How errors name a round of a batch."""
    return f"round {', '.join(str(int(i)) for i in where)}: " if len(where) else ""
