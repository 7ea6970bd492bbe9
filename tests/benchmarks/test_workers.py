"""Worker processes of benchmarks: results in order, and an end when they are interrupted."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks import workers
from mfcp.errors import DataError

ROOT = Path(__file__).parents[2]
LONG = """
import os, signal, sys, time
from benchmarks import workers
from mfcp.errors import guarded

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a shell's background jobs

def tell():
    os.write(1, b"began\\n")  # whole: print may write its end of line later, after another worker's
    time.sleep(600)

def job(k):
    if sys.argv[1] == "at work":
        tell()

if sys.argv[1] == "beginning":
    workers.follow_parent = lambda **_: tell()
raise SystemExit(guarded(lambda: workers.run(job, [(k,) for k in range(500)], 2, "jobs")))
"""


def late(k):
    time.sleep(0.05 * (3 - k))
    if k < 0:
        raise DataError("no such job")
    return os.getpid(), k


def test_results_are_in_order_by_so_many_processes():
    found = workers.run(late, [(0,), (1,), (2,), (3,)], 2, "jobs")
    assert [k for _, k in found] == [0, 1, 2, 3]
    assert 1 <= len({process for process, _ in found} - {os.getpid()}) <= 2


def test_an_error_of_a_job_is_that_of_all():
    with pytest.raises(DataError, match="no such job"):
        workers.run(late, [(0,), (-1,), (1,)], 2, "jobs")


def test_a_worker_that_begins_leaves_interrupts_to_the_program(monkeypatch):
    begin = workers.follow_parent

    def interrupted(**how):
        os.kill(os.getpid(), signal.SIGINT)
        begin(**how)

    monkeypatch.setattr(workers, "follow_parent", interrupted)
    assert [k for _, k in workers.run(late, [(1,), (2,)], 2, "jobs")] == [1, 2]


@pytest.mark.parametrize("when", ["at work", "beginning"])
def test_an_interrupt_of_all_of_them_ends_it(when):
    """As a terminal does it: program and workers get the signal."""
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "src")))
    with subprocess.Popen(
        [sys.executable, "-c", LONG, when], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True, env={**os.environ, "PYTHONPATH": paths},
    ) as program:  # fmt: skip
        try:
            assert "began\n" in iter(program.stdout.readline, "")
            os.killpg(program.pid, signal.SIGINT)
            _, errors = program.communicate(timeout=60)
        finally:
            if program.poll() is None:
                os.killpg(program.pid, signal.SIGKILL)
    assert program.returncode != 0
    assert "Traceback" not in errors
