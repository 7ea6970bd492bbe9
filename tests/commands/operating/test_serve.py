"""`mfcp serve` refuses what it cannot serve safely before it listens."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.xdist_group("api")  # one worker makes what they share


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--host", "0.0.0.0"], "can be reached by others"),
        (["--token-file", "/nonexistent"], "cannot read"),
        (["--model", "/nonexistent"], "no such release"),
        (["--home", "/nonexistent"], "do with a release: --model"),
        (["--model", "/nonexistent", "--threads", "0"], "threads"),
    ],
)
def test_serve_refuses_before_it_listens(options, said):
    program = f"from mfcp.cli import main; main(['serve', *{options!r}])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode in (1, 2)
    assert said in done.stderr
    assert "Traceback" not in done.stderr
