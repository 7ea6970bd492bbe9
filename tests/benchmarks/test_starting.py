"""Benchmarks are run rarely, and by hand: at least each must start, and say so where its data are not."""

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
ASK = """
import importlib, sys
from mfcp.errors import guarded
folder, *names = sys.argv[1:]
for name in names:
    needed = {"evidence": ["--out", folder], "operator_study": ["--name", "x"]}.get(name, [])
    sys.argv[:] = [name, "--data", folder, *needed]
    try:
        code = guarded(importlib.import_module(f"benchmarks.{name}").main)
    except SystemExit as end:
        code = end.code
    print(name, code)
"""
READERS = (
    "ablation", "accuracy", "conformance", "evidence", "families", "features", "intervals", "joining", "matching",
    "once", "operator_study", "page", "qoredl", "schedulers", "sizes",
)  # fmt: skip


def _run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "src")))},
    )  # fmt: skip


def test_every_benchmark_can_be_imported():
    names = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py") if path.stem != "__init__")
    assert len(names) > 20
    ended = _run(START, *names)
    assert ended.returncode == 0, ended.stderr[-1000:]
    assert ended.stdout.split() == names


def test_a_folder_that_is_not_there_is_named(tmp_path):
    ended = _run(ASK, str(tmp_path / "nowhere"), *READERS)
    assert ended.returncode == 0, ended.stderr[-1000:]
    codes = dict(line.rsplit(" ", 1) for line in ended.stdout.splitlines() if line.split(" ")[0] in READERS)
    assert codes == dict.fromkeys(READERS, "2")
    assert ended.stderr.count("nowhere") >= len(READERS)
