"""`mfcp ui` refuses what it cannot show before it listens, and answers once it has said where."""

import re
import signal
import subprocess
import sys

import httpx
import pytest
from platform_log import small_log, small_release


def started(*options):
    program = f"from mfcp.cli import main; main(['ui', *{[str(o) for o in options]!r}])"
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--home", "/nonexistent"], "no platform here"),
        (["--model", "/nonexistent"], "no such release"),
        (["--tasks", "tasks.csv"], "--tasks goes with --model"),
        (["--token-file", "/nonexistent"], "cannot read"),
    ],
)
def test_it_refuses_before_it_listens(options, said):
    process = started(*options)
    _, err = process.communicate(timeout=120)
    assert process.returncode in (1, 2)
    assert said in err
    assert "Traceback" not in err


def test_it_says_where_it_is_and_ends_quietly(tmp_path):
    tables = small_log(6, seed=3, start=700)
    small_release(tmp_path / "release", small_log())
    for name in ("tasks", "nodes", "edges"):
        (tmp_path / "new").mkdir(exist_ok=True)
        tables[name].to_csv(tmp_path / "new" / f"{name}.csv", index=False)
    process = started("--model", tmp_path / "release", "--tasks", tmp_path / "new", "--port", 0)
    try:
        line = process.stdout.readline()
        found = re.fullmatch(r"the page is at (http://127\.0\.0\.1:\d+) \(Ctrl-C ends it\)\n", line)
        assert found, line + process.stderr.read()
        answer = httpx.get(f"{found[1]}/what-if", trust_env=False, timeout=60)
        assert "the 6 tasks given" in answer.text
        other = started("--model", tmp_path / "release", "--port", found[1].rsplit(":", 1)[1])
        _, err = other.communicate(timeout=120)
        assert other.returncode == 2
        assert "Address already in use; give another with --port" in err
    finally:
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert "Traceback" not in err
