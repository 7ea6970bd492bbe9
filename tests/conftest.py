"""What holds for every test: few threads, no telemetry, no store or server of the user's own."""

from __future__ import annotations

import gc
import os

# Before anything imports NumPy or torch; child processes inherit it.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[variable] = "1"
for variable in ("DVC_ROOT", "DVC_STAGE", "MLFLOW_TRACKING_URI", "PREFECT_API_URL", "PREFECT_HOME", "PYTHONPATH"):
    os.environ.pop(variable, None)
os.environ["MPLBACKEND"] = "agg"

from mfcp.environment import collect_seldom, same_instructions, switch_off  # noqa: E402

collect_seldom()
switch_off()
same_instructions()

import pytest  # noqa: E402
from hypothesis import settings  # noqa: E402

# The same examples every time: what is red is so because of a change. None of them against the clock: a machine that is
# busy with something else is no fault of ours.
settings.register_profile("others", deadline=None)
settings.register_profile("same", derandomize=True, deadline=None)
settings.load_profile("same")


def pytest_collection_finish() -> None:
    """What is imported by now stays: the collector need not walk through it in every test."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of real Slurm clusters share them: one worker has them all."""
    for item in items:
        if item.get_closest_marker("slurm") is not None:
            item.add_marker(pytest.mark.xdist_group("slurm"))
