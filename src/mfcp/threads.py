"""One thread for work in small pieces, for threads that wait for each other cost ten times what they save; and worker
processes for large ones.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep torch to one thread."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def one_blas_thread() -> AbstractContextManager[Any]:
    """Keep the matrix routines of numpy and scipy to one thread."""
    limited: AbstractContextManager[Any] = _blas().limit(limits=1, user_api="blas")
    return limited


def cores() -> int:
    """CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def process_pool(workers: int) -> ProcessPoolExecutor:
    """Worker processes of this machine, fresh ones: a forked torch or numba may hang."""
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"), initializer=follow_parent)


def follow_parent() -> None:
    """End with the parent, however it ends; Ctrl-C ends a worker at once and without words."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@cache
def _blas() -> Any:
    import scipy.linalg  # noqa: F401  its library is to be among those found
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
