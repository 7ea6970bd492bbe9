"""Training steps of a zoo model as a job."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

PROGRAM = [sys.executable, "-m", "mfcp.profiling.task", "--model"]


@pytest.mark.slow
def test_it_reports_the_time_of_a_step(tmp_path):
    report = tmp_path / "report"
    command = [*PROGRAM, "mobilenet_v2-0.5@32", "--batch", "2", "--samples", "6"]
    subprocess.run(command, check=True, timeout=200, env={"MFCP_REPORT": str(report), "PATH": "/usr/bin:/bin"})
    told = json.loads(report.read_text())
    assert told["batch_size"] == 2
    assert 0 < told["step_time_s"] < 60


def test_wrong_tasks_end_with_what_is_expected():
    for arguments, message in (
        (["no-such-model", "--batch", "2", "--samples", "6"], "no-such-model"),
        (["mobilenet_v2-0.5@32", "--batch", "0", "--samples", "6"], "expected numbers above 0"),
    ):
        done = subprocess.run([*PROGRAM, *arguments], capture_output=True, text=True, timeout=100, check=False)
        assert done.returncode
        assert message in done.stderr
        assert "Traceback" not in done.stderr
