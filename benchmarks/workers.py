"""Worker processes of a benchmark, which share what it has read."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from mfcp.progress import progress
from mfcp.threads import follow_parent


def run(job: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], processes: int, what: str) -> list[Any]:
    """Results in order. An interrupt, or an error of a job, ends it once the jobs that are running have ended."""
    pool = ProcessPoolExecutor(processes, mp_context=get_context("fork"), initializer=_begin)
    with progress(what, len(arguments)) as advance:
        try:
            # Until a worker ignores them, interrupts wait: what ends it before the program is told breaks the pool.
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                waiting = [pool.submit(job, *each) for each in arguments]
            finally:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            found = []
            for future in waiting:
                found.append(future.result())
                advance()
        finally:
            pool.shutdown(cancel_futures=True)
    return found


def _begin() -> None:
    follow_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
