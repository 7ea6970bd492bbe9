"""Jobs over workers: processes of this machine or a Dask cluster, behind one executor."""

from __future__ import annotations

import shutil
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mfcp.errors import MfcpError, SettingsError
from mfcp.files import locked, output_folder
from mfcp.paper.jobs import Job, work
from mfcp.progress import progress
from mfcp.threads import process_pool

_PATIENCE = 30  # seconds for a Dask scheduler to answer


@contextmanager
def alone(out: Path) -> Iterator[None]:
    """The folder to oneself, without what an earlier run was killed in the middle of.

    Raises:
        SettingsError: another run writes there.
    """
    try:
        with locked(output_folder(out) / ".lock"):
            for leftover in (out / "jobs").glob(".*"):
                shutil.rmtree(leftover, ignore_errors=True)
            yield
    except BlockingIOError:
        raise SettingsError(f"{out}: another run of mfcp writes there; wait for it or choose another --out") from None


def run_jobs(jobs: Sequence[Job], out: Path, open_workers: Callable[[], tuple[Executor, int]]) -> dict[str, str]:
    """Do what is missing, each job as soon as what it needs is there.

    Args:
        jobs: all of them; needs before those who need them.
        out: the folder of results.
        open_workers: an executor and how many jobs it does at once.

    Returns:
        Why jobs failed, by name; jobs whose needs failed are among them. All others are done.
    """
    waiting = [job for job in jobs if not job.done(out)]
    print(f"{len(jobs)} jobs, {len(jobs) - len(waiting)} done before", flush=True)
    failed: dict[str, str] = {}
    if not waiting:
        return failed
    total, finished = len(waiting), 0
    executor, width = open_workers()
    running: dict[Future[dict[str, Any]], Job] = {}
    try:
        with progress("paper", total) as advance:
            while waiting or running:
                for job in [job for job in waiting if any(need.name in failed for need in job.needs)]:
                    waiting.remove(job)
                    failed[job.name] = "needs a job that failed"
                    finished += 1
                    advance()
                for job in [job for job in waiting if all(need.done(out) for need in job.needs)][
                    : width - len(running)
                ]:
                    waiting.remove(job)
                    running[executor.submit(attempt, job, out)] = job
                broken = False
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    job = running.pop(future)
                    try:
                        end = future.result()
                    except BrokenProcessPool:
                        broken = True
                        end = {"error": "its process died (out of memory?)"}
                    finished += 1
                    advance()
                    _tell(job, end, f"[{finished}/{total}]", out, failed)
                if broken:
                    for job in running.values():
                        failed[job.name] = "another job's process died beside it; run again"
                    finished += len(running)
                    running.clear()
                    executor.shutdown(wait=False)
                    executor, width = open_workers()
    except BaseException:
        executor.shutdown(wait=False, cancel_futures=True)
        raise
    executor.shutdown()
    return failed


def attempt(job: Job, out: Path) -> dict[str, Any]:
    """Do a job in a worker; what goes wrong comes back as text, since not every exception can."""
    try:
        return dict(work(job, out))
    except MfcpError as error:
        return {"error": str(error)}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}


def _tell(job: Job, end: dict[str, Any], count: str, out: Path, failed: dict[str, str]) -> None:
    if "error" not in end:
        print(f"{count} {job.name}: {end['seconds']:.0f} s, CPU {end['cpu_seconds']:.0f} s", flush=True)
        return
    failed[job.name] = end["error"]
    print(f"{count} {job.name}: failed: {end['error']}", file=sys.stderr, flush=True)
    if "trace" in end:
        print(end["trace"], file=sys.stderr, flush=True)


def processes(workers: int, imports: Sequence[str] = (work.__module__,)) -> tuple[Executor, int]:
    """Worker processes of this machine that have imported these modules, and how many."""
    return process_pool(workers, imports), workers


@contextmanager
def dask_workers(address: str) -> Iterator[Callable[[], tuple[Executor, int]]]:
    """What opens the workers of a Dask cluster that see the same files; start them with `--nthreads 1`.

    Raises:
        SettingsError: the extra `distributed` is missing, or no scheduler with workers answers.
    """
    try:
        import distributed
    except ImportError:
        raise SettingsError('--scheduler needs Dask: pip install "mfcp[distributed]"') from None
    try:
        connect: Any = distributed.Client  # untyped
        client = connect(address, timeout=_PATIENCE)
        client.wait_for_workers(1, timeout=_PATIENCE)
    except (OSError, ValueError, TimeoutError) as error:
        raise SettingsError(f"--scheduler {address}: {error}; expected tcp://HOST:PORT of `dask scheduler`") from None
    try:
        yield lambda: (client.get_executor(pure=False), sum(client.nthreads().values()))
    finally:
        client.close()
