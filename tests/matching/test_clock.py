"""The clock of time limits: it goes as any other, but not while something is compiled."""

import subprocess
import sys
import time
from types import ModuleType

import numba
import numpy as np

from mfcp import compiling
from mfcp.matching import clock


def test_it_stands_still_while_a_kernel_is_compiled():
    def many(x):
        total = 0.0
        for i in range(x):
            total += i**0.5
        return total

    begin, began = time.perf_counter(), clock.seconds()
    compiled = numba.njit(many)
    assert compiled(9) == many(9)
    took, counted = time.perf_counter() - begin, clock.seconds() - began
    assert took > 0.03
    assert counted < 0.5 * took


def test_it_stands_still_until_it_is_compiled_and_then_goes_on(monkeypatch):
    compiler = compiling._Compiling()
    monkeypatch.setattr(compiling, "_compiling", compiler)
    seen = [clock.seconds()]
    for step in (compiler.on_start, compiler.on_start, compiler.on_end, compiler.on_end):
        step(None)
        time.sleep(0.02)
        seen.append(clock.seconds())
    gone = np.diff(seen)
    assert np.abs(gone[:3]).max() < 0.015
    assert gone[3] >= 0.02 - 1e-9


def test_who_waits_for_another_process_does_not_pay_for_it(monkeypatch):
    monkeypatch.setattr(compiling, "_missing", lambda names: list(names))
    monkeypatch.setattr(compiling, "_compile", lambda name: time.sleep(0.1))
    begin = clock.seconds()
    compiling.prepare("mfcp.matching.kernels.relaxed_newton")
    assert clock.seconds() - begin < 0.05


def test_it_goes_while_another_thread_imports_the_compiler(monkeypatch):
    monkeypatch.setitem(sys.modules, "mfcp.compiling", ModuleType("mfcp.compiling"))
    assert clock.seconds() <= time.perf_counter()


def test_it_imports_nothing():
    told = "import sys, mfcp.matching.clock as c; c.seconds(); print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
