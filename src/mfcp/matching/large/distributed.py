"""The shards of pricing on the workers of a Dask cluster, and what happens when some of these die.

Dask keeps how each group of shards was made: every operation that changes a group is a task whose input is the group
before and whose output is a new one. So when a worker is lost, Dask makes its groups again on another one by the same
operations, from the same data, to the same bits. That asks two things of this module: a task must not touch its input,
and the data must come from a task, too (from the scheduler's copy of its arguments, or from files), not from one
worker's memory.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfcp.errors import SettingsError, SolverError
from mfcp.matching import clock
from mfcp.matching.large.linear_relaxation import Relaxation
from mfcp.matching.large.shards import Shard, Shards, cut

_PATIENCE = 30.0  # seconds without any worker, or without the scheduler, before giving up
_READS = ("normal", "reach", "plan")  # operations that leave a shard as it is
_WRITTEN = ("x", "s", "u", "push")  # arrays of a shard that the others may write into; all else they replace


@contextmanager
def dask_shards(address: str, *, patience: float = _PATIENCE) -> Iterator[Callable[[Relaxation, int], Shards]]:
    """A maker of shards on the cluster whose scheduler listens at `address`, for `pricing.price(place=…)`.

    The scheduler and the workers need this package and its `distributed` extra in the same versions. They run what
    they are sent (pickles over Dask's connection), as does this process with what they answer: all must trust each
    other and the network between them.

    Args:
        address: "tcp://host:8786"; "tls://…" with the certificates of Dask's own settings.
        patience: seconds to wait for the scheduler, and for a worker whenever there is none.

    Raises:
        SettingsError: the extra is not installed, or there is no scheduler.
        SolverError: no worker is left for so long, or the scheduler went away.
    """
    try:
        import dask
        import distributed
    except ImportError:
        raise SettingsError('a scheduler needs Dask: pip install "mfcp[distributed]"') from None
    if not re.fullmatch(r"(tcp|tls)://.+:\d+", address):
        raise SettingsError(f"scheduler '{address}': expected tcp://HOST:PORT of `dask scheduler`")
    whole = {"distributed.admin.large-graph-warning-threshold": "1 TiB"}  # data goes with the tasks on purpose
    with dask.config.set(whole):
        try:
            connect: Any = distributed.Client
            client = connect(address, timeout=patience, set_as_default=False, direct_to_workers=True)
        except (OSError, ValueError) as error:
            raise SettingsError(
                f"scheduler '{address}': {error}; expected tcp://HOST:PORT of `dask scheduler`"
            ) from None
        with client:
            yield lambda data, candidates: DaskShards(client, data, candidates, patience)


@dataclass(frozen=True)
class Stored:
    """A part of an array in a file that workers see, too."""

    path: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    kind: np.dtype[Any]

    def read(self) -> NDArray[Any]:
        """Its values, in memory."""
        size = sum((n - 1) * stride for n, stride in zip(self.shape, self.strides, strict=True)) + self.kind.itemsize
        raw = np.memmap(self.path, np.uint8, "r", self.offset, (size,))
        return np.ndarray(self.shape, self.kind, raw, strides=self.strides).copy()


@dataclass
class Group:
    """Consecutive shards on one worker, and the results of the operation that made them what they are."""

    shards: list[Shard]
    results: list[Any]

    def __sizeof__(self) -> int:
        """Bytes, which Dask weighs against the work before it moves a group."""
        data = self.shards[0].data
        arrays = [data.T, data.A, data.money, *(row.use for row in data.rows)]
        arrays += [value for shard in self.shards for value in vars(shard).values()]
        return sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))


class DaskShards:
    """Shards on the workers of a cluster, in as many groups as these have threads when it is made.

    They are the shards of `Threads`, as long as there are no more threads than that has shards at most.
    """

    def __init__(self, client: Any, data: Relaxation, candidates: int, patience: float = _PATIENCE) -> None:
        self.client, self.patience = client, patience
        try:
            client.wait_for_workers(1, timeout=patience)
        except TimeoutError:
            raise self._lost("has no worker") from None
        threads = sum(client.nthreads().values())
        shards = cut(len(data.mass), candidates, threads)
        self.files = _files(client, [data.T, data.A])
        self.groups = []
        for some in np.array_split(np.arange(len(shards)), min(threads, len(shards))):
            begin, end = shards[some[0]].start, shards[some[-1]].stop
            part = data.take(slice(begin, end), data.mass[begin:end])
            part = replace(part, T=_sent(part.T, self.files), A=_sent(part.A, self.files))
            tasks = [slice(shards[k].start - begin, shards[k].stop - begin) for k in some]
            self.groups.append(client.submit(_load, part, tasks, min(candidates, len(data.T)), pure=False))

    def each(self, operation: str, *args: Any) -> Sequence[Any]:
        """As `Shards.each`.

        Raises:
            SolverError: no worker is left, or the scheduler went away.
        """
        if operation in _READS:
            answers = self.client.map(_ask, self.groups, operation=operation, args=args, pure=False)
        else:
            self.groups = self.client.map(_advance, self.groups, operation=operation, args=args, pure=False)
            if operation == "move":  # answers nothing: whatever comes next waits for it
                return []
            answers = self.client.map(_results, self.groups, pure=False)
        return list(chain.from_iterable(self._gather(answers)))

    def _gather(self, futures: list[Any]) -> list[list[Any]]:
        """The values of futures, as soon as they are there; an end to waiting when nobody works on them."""
        from distributed import KilledWorker

        call = asyncio.run_coroutine_threadsafe(
            self.client.gather(futures, asynchronous=True), self.client.loop.asyncio_loop
        )
        alive = clock.seconds()
        while True:
            try:
                values: list[list[Any]] = call.result(timeout=min(1.0, self.patience))
            except TimeoutError:
                if self.client.status == "running" and self.client.nthreads():
                    alive = clock.seconds()
                elif clock.seconds() - alive > self.patience:
                    call.cancel()
                    raise self._lost("has no worker") from None
            except KilledWorker as error:
                raise SolverError(f"{error}; a worker may have too little memory for its part: add workers") from None
            except (CancelledError, asyncio.CancelledError, OSError) as error:
                raise self._lost(f"lost the work ({error})") from None
            else:
                return values

    def _lost(self, what: str) -> SolverError:
        address = self.client.scheduler.address
        return SolverError(
            f"scheduler {address} {what} for {self.patience:g} s; start workers by `dask worker {address}`, solve again"
        )


def _load(part: Relaxation, tasks: list[slice], candidates: int) -> Group:
    tables: dict[str, Any] = {name: table.read() for name, table in vars(part).items() if isinstance(table, Stored)}
    data = replace(part, **tables)
    return Group([Shard(data, some, candidates) for some in tasks], [])


def _ask(group: Group, operation: str, args: tuple[Any, ...]) -> list[Any]:
    """Results of an operation that changes nothing."""
    return [getattr(shard, operation)(*args) for shard in group.shards]


def _advance(group: Group, operation: str, args: tuple[Any, ...]) -> Group:
    """The group after an operation; the given one stays as it is."""
    shards = [copy(shard) for shard in group.shards]
    for shard in shards:
        for name in _WRITTEN:
            if name in vars(shard):
                setattr(shard, name, vars(shard)[name].copy())
    return Group(shards, [getattr(shard, operation)(*args) for shard in shards])


def _results(group: Group) -> list[Any]:
    return group.results


def _stored(array: NDArray[Any]) -> Stored | None:
    """Where an array lies that is a view of a file, else None."""
    owner, base = None, array
    while isinstance(base, np.ndarray):
        if isinstance(base, np.memmap):
            owner = base
        base = base.base  # type: ignore[assignment]
    if owner is None or owner.filename is None or not isinstance(base, mmap.mmap):
        return None
    offset = array.ctypes.data - owner.ctypes.data + owner.offset
    return Stored(str(Path(owner.filename).absolute()), offset, array.shape, array.strides, array.dtype)


def _sent(array: NDArray[Any], files: set[str]) -> Any:
    """What to send for an array: where it lies, if in one of these files, else its values."""
    stored = _stored(array)
    return stored if stored is not None and stored.path in files else np.ascontiguousarray(array)


def _files(client: Any, arrays: list[NDArray[Any]]) -> set[str]:
    """The files of arrays that every worker sees as this process does."""
    here = _stamps([stored.path for array in arrays if (stored := _stored(array)) is not None])
    if not here:
        return set()
    there = client.run(_stamps, list(here), on_error="ignore").values()
    return {path for path, stamp in here.items() if all(stamps.get(path) == stamp for stamps in there)}


def _stamps(paths: list[str]) -> dict[str, tuple[int, int]]:
    """Size and time of change of the files that exist."""
    return {
        path: (found.st_size, found.st_mtime_ns) for path in paths if os.path.exists(path) for found in [os.stat(path)]
    }
