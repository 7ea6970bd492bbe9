"""`python -m mfcp.simulator`, with which `make setup` compiles the kernels of every policy."""

from __future__ import annotations

import subprocess
import sys

TORCH = "import sys, runpy; runpy.run_module('mfcp.simulator', run_name='__main__'); assert 'torch' not in sys.modules"
COMPILED = """
from numba.core import event
import mfcp.environment; mfcp.environment.same_instructions()
import numpy as np
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Policy
from mfcp.simulator.simulation import import_policies, simulate
import_policies()
n = 40
jobs = Jobs.simple(np.arange(n) / 2, 1 + np.arange(n) % 2, 5.0 + np.arange(n) % 7, success=np.full(n, 0.7))
with event.install_recorder("numba:compile") as recorder:
    for name in ("fifo", "easy", "srsf", "las", "themis"):
        simulate(jobs, Cluster.parse("a:1x2,b:2"), Policy.build(name))
    simulate(jobs, Cluster.parse("2x2"), Policy.build("las", promote=0.5))
    due = Jobs.simple(jobs.submit, jobs.gpus, jobs.duration, deadline=jobs.submit + 30.0)
    for name in ("edf", "elastic_flow", "chronus"):
        simulate(due, Cluster.parse("2x2"), Policy.build(name))
    simulate(jobs, Cluster.parse("2x3"), Policy.build("sjf"), placement="fgd")
assert not recorder.buffer, recorder.buffer
"""


def test_afterwards_nothing_is_compiled_and_torch_need_not_be_there() -> None:
    for code in (TORCH, COMPILED):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
