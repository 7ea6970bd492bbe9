"""One thread for work in small pieces: threads that wait for each other cost ten times what they save."""

from __future__ import annotations

from collections.abc import Iterator
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


@cache
def _blas() -> Any:
    import scipy.linalg  # noqa: F401  its library is to be among those found
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
