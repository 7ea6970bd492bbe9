"""`python -m mfcp.matching`, with which `make setup` compiles kernels."""

from __future__ import annotations

import subprocess
import sys

from mfcp import compiling


def test_all_kernels_are_compiled_without_a_word() -> None:
    done = subprocess.run([sys.executable, "-m", "mfcp.matching"], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    complete, kept, _ = compiling.kept("matching")
    assert complete
    assert all((kept / name).is_dir() for name in compiling.prepared("matching"))


SOLVED = """
from numba.core import event
import mfcp.environment; mfcp.environment.same_instructions()
import numpy as np
from mfcp.matching.planning import solve
from mfcp.matching.problem import MatchingProblem
rng = np.random.default_rng(1)
with event.install_recorder("numba:compile") as recorder:
    for shape in ((3, 12), (20, 400)):
        for engine in ("dual", "greedy"):
            solve(MatchingProblem(rng.lognormal(size=shape), rng.uniform(0.8, 1.0, shape), 0.9), engine)
assert not recorder.buffer, recorder.buffer
"""


def test_large_rounds_then_compile_nothing() -> None:
    for how in (["-m", "mfcp.matching"], ["-c", SOLVED]):
        done = subprocess.run([sys.executable, *how], capture_output=True, text=True, timeout=300)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
