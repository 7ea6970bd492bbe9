"""One thread, and the earlier number again afterwards; work in processes, whatever becomes of them."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextvars import ContextVar
from functools import partial
from pathlib import Path

import pytest
import side_work
import threadpoolctl
import torch
from running import until

from mfcp import threads
from mfcp.errors import DataError, MfcpError
from mfcp.threads import beside, heeding_interrupts, one_blas_thread, one_thread


def blas():
    return {pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"}


def test_torch_keeps_to_one_thread_and_has_its_own_again_after_an_error():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with one_thread():
            assert torch.get_num_threads() == 1
            raise KeyError
    except KeyError:
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_blas_keeps_to_one_thread():
    import scipy.linalg  # noqa: F401

    before = blas()
    with one_blas_thread():
        assert blas() == {1}
    assert blas() == before


@pytest.fixture
def hears_interrupts():
    """A shell's background jobs ignore them, and with them pytest's workers."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("hears_interrupts")
def test_an_interrupt_does_not_wait_for_compiled_code():
    ends = threading.Event()

    def work():
        os.kill(os.getpid(), signal.SIGINT)
        assert ends.wait(100)

    with pytest.raises(KeyboardInterrupt):
        heeding_interrupts(work)
    ends.set()


def test_what_it_answers_and_raises_is_the_work_s():
    variable = ContextVar("variable", default=0)
    variable.set(3)
    assert heeding_interrupts(variable.get) == 3
    with pytest.raises(DataError, match="row 7"):
        heeding_interrupts(partial(side_work.failing, 0, Path(), lambda: None))


def test_another_thread_does_the_work_itself():
    with ThreadPoolExecutor(1) as pool:
        at = pool.submit(threading.get_ident).result()
        assert pool.submit(heeding_interrupts, threading.get_ident).result() == at


@pytest.fixture
def allowed(monkeypatch):
    monkeypatch.setattr(threads, "_allowed", True)


INTERRUPTED = """
import signal
import sys
from mfcp.errors import guarded
from mfcp.threads import allow_processes, beside, process_pool

def run():
    if sys.argv[1] == "beside":
        import side_work

        beside(side_work.squared, [(1,), (2,)], imports=["slow_module"])
    else:
        process_pool(1, []).submit(int).result()

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    allow_processes()
    sys.exit(guarded(run))
import slow_module
"""
SLOW = """
import os, pathlib, time
pathlib.Path(os.environ["BEGAN"]).touch()
time.sleep(2)
"""


@pytest.mark.skipif(threads.cores() < 2, reason="one core needs no processes")
@pytest.mark.parametrize("way", ["beside", "pool"])
def test_ctrl_c_while_processes_import_is_one_line(tmp_path, way):
    """To all of them, as a terminal sends it."""
    began, main = tmp_path / "began", tmp_path / "program.py"
    main.write_text(INTERRUPTED)
    (tmp_path / "slow_module.py").write_text(SLOW)
    paths = [tmp_path, Path(__file__).parent, Path(__file__).parents[1] / "src"]
    program = subprocess.Popen(
        [sys.executable, main, way], stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "BEGAN": str(began)},
    )  # fmt: skip
    try:
        until(began.exists, "imports begin")
    finally:
        os.killpg(program.pid, signal.SIGINT)
        _, told = program.communicate(timeout=60)
    assert (program.returncode, len(told.splitlines())) == (130, 1), told


@pytest.mark.usefixtures("allowed")
def test_calls_beside_each_other_have_their_results_in_order_and_every_step_is_told():
    steps = []
    found = beside(side_work.squared, [(x,) for x in range(7)], advance=lambda: steps.append(1))
    assert [value for value, _ in found] == [x * x for x in range(7)]
    assert len(steps) == 14
    assert os.getpid() not in {pid for _, pid in found}


@pytest.mark.parametrize(("name", "value"), [("cores", lambda: 1), ("_allowed", False)])
@pytest.mark.usefixtures("allowed")
def test_one_core_or_a_program_that_does_not_allow_it_does_it_by_itself(monkeypatch, name, value):
    monkeypatch.setattr(threads, name, value)
    steps = []
    found = beside(side_work.squared, [(2,), (3,)], advance=lambda: steps.append(1))
    assert found == [(4, os.getpid()), (9, os.getpid())]
    assert len(steps) == 4


@pytest.mark.usefixtures("allowed")
def test_an_error_of_one_call_ends_the_others(tmp_path):
    start = time.monotonic()
    with pytest.raises(DataError, match="row 7"):
        beside(side_work.failing, [(x, tmp_path) for x in (1, 0, 2)])
    assert time.monotonic() - start < 30  # not their minute
    time.sleep(0.5)
    assert not any(tmp_path.iterdir())


@pytest.mark.usefixtures("allowed")
@pytest.mark.parametrize("error", [BrokenProcessPool("it died"), OSError("handle is closed")])
def test_a_process_that_dies_while_others_are_started_is_told(monkeypatch, error):
    class Breaking(threads.ProcessPoolExecutor):
        submitted = 0

        def submit(self, *call):
            Breaking.submitted += 1
            if Breaking.submitted == 2:
                raise error
            return super().submit(*call)

    monkeypatch.setattr(threads, "ProcessPoolExecutor", Breaking)
    with pytest.raises(MfcpError, match="a worker process died"):
        beside(side_work.squared, [(x,) for x in range(3)])
    assert Breaking.submitted == 2


@pytest.mark.usefixtures("allowed")
def test_a_process_that_dies_is_told():
    with pytest.raises(MfcpError, match="a worker process died"):
        beside(side_work.dying, [(x,) for x in range(3)])
