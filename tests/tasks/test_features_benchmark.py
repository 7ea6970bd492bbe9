"""The program of docs/features.md, where there is nothing to measure."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_folder_that_is_not_there_is_one_line_and_exit_code_2(tmp_path):
    command = [sys.executable, "benchmarks/features.py", "--data", str(tmp_path / "nowhere")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [done.stderr.strip()]
    assert "nowhere: no such folder" in done.stderr
