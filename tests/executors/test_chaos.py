"""A part of `python benchmarks/executors.py chaos`: every part of two real Slurm clusters killed while tasks run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from flows.slurm import missing

PROGRAM = [sys.executable, str(Path(__file__).parents[2] / "benchmarks" / "executors.py"), "chaos"]
pytestmark = pytest.mark.slurm


def chaos(*options: str, timeout: float) -> subprocess.CompletedProcess[str]:
    if why := missing():
        pytest.skip(why)
    return subprocess.run([*PROGRAM, *options], capture_output=True, text=True, timeout=timeout, check=False)


@pytest.mark.long
def test_every_task_ends_once_whatever_is_killed() -> None:
    done = chaos("--seeds", "4", "--tasks", "8", timeout=560)
    assert done.returncode == 0, done.stdout + done.stderr
    kills, faults = (int(cell) for cell in done.stdout.splitlines()[1].split()[3:5])
    assert kills > 2
    assert faults > 2
    assert "\n0 findings" in done.stdout


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_all_points_in_five_seeds(seed: int) -> None:
    done = chaos("--seeds", str(seed), timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\n0 findings" in done.stdout
    assert not re.search("not on the way", done.stdout), done.stdout


@pytest.mark.long
def test_a_plain_executor_fails_under_the_same_faults() -> None:
    done = chaos("--naive", "--seeds", "0", "--tasks", "12", timeout=900)
    assert done.returncode == 1
    assert re.search(r"was done [2-9] times|began [2-9] times|overlap|was lost", done.stdout), done.stdout
