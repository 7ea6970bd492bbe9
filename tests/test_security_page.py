"""SECURITY.md names a command for each promise, and the tests that it names are there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_promise_has_a_command_that_exists():
    text = (ROOT / "SECURITY.md").read_text()
    table = text.partition("## What is promised")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:3] for line in table.splitlines() if line.startswith("| ") and "---" not in line][1:]
    assert len(rows) >= 8
    for promise, shown in rows:
        commands = re.findall(r"`([^`]+)`", shown)
        assert commands, promise
        for command in commands:
            program, *words = command.split()
            assert program in ("make", "pytest", "python"), command
            paths = [word for word in words if "/" in word]
            assert paths or program == "make", command
            assert all((ROOT / path).exists() for path in paths), command
