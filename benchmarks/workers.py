"""Worker processes of a benchmark, which share what it has read."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from typing import Any

from mfcp.progress import progress
from mfcp.threads import follow_parent


@contextmanager
def workers(processes: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of forked processes, which an interrupt or an error ends at once, whatever they do."""
    others = set(active_children())
    pool = ProcessPoolExecutor(processes, mp_context=get_context("fork"), initializer=_begin)
    try:
        # Until workers ignore them, interrupts wait: what ends one before the program is told breaks the pool.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            pool.submit(int)  # the first job starts all of them
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
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
    follow_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
