"""Benchmarks are run rarely, and by hand: at least each must start."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
START = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(f"benchmarks.{name}")
    print(name)
"""


def test_every_benchmark_can_be_imported():
    names = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py") if path.stem != "__init__")
    assert len(names) > 20
    path = os.pathsep.join(map(str, (ROOT, ROOT / "src")))
    ended = subprocess.run(
        [sys.executable, "-c", START, *names],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-1000:]
    assert ended.stdout.split() == names
