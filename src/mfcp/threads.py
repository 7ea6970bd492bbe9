"""One thread for work in small pieces, for threads that wait for each other cost ten times what they save; worker
processes for large ones; and compiled code that hears of interrupts.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from functools import cache
from multiprocessing import forkserver, resource_tracker
from typing import TYPE_CHECKING, Any, TypeVar

from mfcp.environment import collect_seldom
from mfcp.errors import MfcpError

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext
    from multiprocessing.sharedctypes import Synchronized

R = TypeVar("R")

_POLL_S = 0.2
_ENDED = -1
_IN_FORKSERVER = "MFCP_IN_FORKSERVER"
_allowed = False  # see `allow_processes`
_count: Synchronized[int]  # of a worker's process: steps of all workers so far, or _ENDED


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


def heeding_interrupts(work: Callable[[], R]) -> R:
    """What `work` answers, for compiled code that lets other threads run but would not hear Ctrl-C before its end.

    An interrupt is raised here at once. What is left of the work goes on in a thread that keeps no program from ending.
    """
    if threading.current_thread() is not threading.main_thread():  # interrupts are the main thread's
        return work()
    answer: Future[R] = Future()
    context = copy_context()

    def run() -> None:
        try:
            answer.set_result(context.run(work))
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return answer.result()


def cores() -> int:
    """CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def process_pool(workers: int, imports: Sequence[str]) -> ProcessPoolExecutor:
    """Worker processes of this machine, forked from one that has imported these modules and done nothing else.

    Forked from here, a torch or numba that has worked already may hang.
    """
    return _Pool(workers, mp_context=_forkserver(imports), initializer=follow_parent)


class _Pool(ProcessPoolExecutor):
    """Starts its processes as work comes; one that still imports would tell a traceback of Ctrl-C."""

    def submit(self, work: Callable[..., R], /, *arguments: Any, **named: Any) -> Future[R]:
        with interrupts_wait():
            return super().submit(work, *arguments, **named)


@contextmanager
def interrupts_wait() -> Iterator[None]:
    """Ctrl-C waits: here until the end, in processes that are started meanwhile until they let it through."""
    resource_tracker.ensure_running()  # while it is started, it lets interrupts through
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def allow_processes() -> None:
    """Let `beside` start processes; a program calls this whose main module does nothing when it is imported.

    Every process imports that module again. A user's own script would run again in each.
    """
    global _allowed
    _allowed = True


_DIED = "a worker process died, perhaps for want of memory; nothing was written"


def beside(
    work: Callable[..., R],
    calls: Sequence[tuple[Any, ...]],
    *,
    worth: bool = True,
    advance: Callable[[], Any] = lambda: None,
    imports: Sequence[str] = (),
) -> list[R]:
    """`work(*call, advance)` for each call, on all cores; the results in their order.

    The processes are forked from one that has imported what they need and done nothing else. That takes some two
    seconds once. With one core or one call, or where nobody has allowed processes, it is done right here.

    Args:
        work: of a module that is not run itself; its results and errors can be pickled. It calls `advance` now and
            then: there it ends when another call has failed.
        calls: arguments of each call.
        worth: whether all calls together take much longer than that; if not, they are done right here too.
        advance: called here as often as in all calls together.
        imports: modules that `work` will import, besides its own.

    Raises:
        MfcpError: a process died.
    """
    if not worth or not _allowed or min(len(calls), cores()) < 2:
        return [work(*call, advance) for call in calls]
    workers = min(len(calls), cores() + 1)  # one more than cores: three calls on two then end together
    context = _forkserver([work.__module__, *imports])
    count, told = context.Value("q", 0), 0
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=(count,)) as pool:
        try:
            futures = [pool.submit(_called, work, call) for call in calls]
        except (BrokenProcessPool, OSError):  # the first died while others were started
            pool.shutdown(wait=False, cancel_futures=True)
            raise MfcpError(_DIED) from None
        try:
            left = set(futures)
            while left:
                done, left = wait(left, timeout=_POLL_S, return_when=FIRST_EXCEPTION)
                now = count.value
                for _ in range(told, now):
                    advance()
                told = now
                for future in done:
                    future.result()
        except BaseException as error:
            count.value = _ENDED
            pool.shutdown(wait=False, cancel_futures=True)
            if isinstance(error, BrokenProcessPool):
                raise MfcpError(_DIED) from None
            raise
    return [future.result() for future in futures]


def _forkserver(imports: Sequence[str]) -> ForkServerContext:
    """Where workers are forked from a server that has imported these modules; the first to ask starts the server.

    It would tell a traceback of Ctrl-C while it imports: interrupts wait there until it imports this module, and then
    end it without words.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, *imports])
    os.environ[_IN_FORKSERVER] = "1"
    try:
        with interrupts_wait():
            forkserver.ensure_running()
    finally:
        del os.environ[_IN_FORKSERVER]
    return context


def _begin(count: Synchronized[int]) -> None:
    global _count
    _count = count
    follow_parent()


def _called(work: Callable[..., R], call: tuple[Any, ...]) -> R:
    import torch

    torch.set_num_threads(1)  # the cores are taken by processes
    return work(*call, _advance)


def _advance() -> None:
    """Tell the parent that a step is done."""
    with _count.get_lock():
        if _count.value == _ENDED:
            raise InterruptedError
        _count.value += 1


def _let_interrupts_through(end: bool = True) -> None:
    """From here on Ctrl-C ends this process, at once and without words, or does nothing."""
    signal.signal(signal.SIGINT, signal.SIG_DFL if end else signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


if os.environ.pop(_IN_FORKSERVER, None):
    _let_interrupts_through()


def follow_parent(*, interrupts_end: bool = True) -> None:
    """End with the parent, however it ends; Ctrl-C ends a worker without words, or is left to the parent."""
    collect_seldom()
    _let_interrupts_through(interrupts_end)
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
