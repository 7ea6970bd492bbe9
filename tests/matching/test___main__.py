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
from mfcp.matching.problem import Capacity, MatchingProblem, Objective
rng = np.random.default_rng(1)
with event.install_recorder("numba:compile") as recorder:
    for M, N in ((3, 12), (20, 400)):
        T, A = rng.lognormal(size=(M, N)), rng.uniform(0.8, 1.0, (M, N))
        T.flags.writeable = N == 12
        for given in (
            {}, {"backlog": 1.0}, {"deadline": 1e4}, {"allowed": rng.random((M, N)) < 0.9},
            {"zeta": np.maximum(1 - 0.05 * np.arange(N + 1), 0.8)},
            {"cost": T.T.copy().T, "objective": Objective(1, 0, 0.1)},
            {"capacities": [Capacity("memory", np.ones(N), float(N))]},
        ):
            for value in given.values():
                if isinstance(value, np.ndarray):
                    value.flags.writeable = False
            for engine in ("auto", "dual", "greedy"):
                solve(MatchingProblem(T, A, 0.85, **given), engine)
        solve(MatchingProblem(T.astype(np.float32), A.astype(np.float32), 0.85), "dual")
assert not recorder.buffer, [event[1].data["dispatcher"] for event in recorder.buffer]
"""


def test_large_rounds_whatever_constrains_them_then_compile_nothing() -> None:
    for how in (["-m", "mfcp.matching"], ["-c", SOLVED]):
        done = subprocess.run([sys.executable, *how], capture_output=True, text=True, timeout=300)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
