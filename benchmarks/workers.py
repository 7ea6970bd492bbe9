"""Worker processes of a benchmark, which share what it has read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from typing import Any

from mfcp.progress import progress
from mfcp.threads import follow_parent, interrupts_wait


@contextmanager
def workers(processes: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of forked processes, which an interrupt or an error ends at once, whatever they do."""
    others = set(active_children())
    pool = ProcessPoolExecutor(processes, mp_context=get_context("fork"), initializer=_begin)
    try:
        with interrupts_wait():
            pool.submit(int)  # the first job starts all of them
        yield pool
    except BaseException:
        for process in set(active_children()) - others:
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def run(job: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], processes: int, what: str) -> list[Any]:
    """Results of a job for each tuple of arguments, in order."""
    found = []
    with workers(processes) as pool, progress(what, len(arguments)) as advance:
        waiting = [pool.submit(job, *each) for each in arguments]
        for future in waiting:
            found.append(future.result())
            advance()
    return found


def _begin() -> None:
    follow_parent(interrupts_end=False)  # a worker that ends before the program is told breaks the pool
