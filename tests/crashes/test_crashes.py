"""A part of `make faults`: short commands, and that the campaign finds what is wrong."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from crashes.states import contents, key, results


def campaign(*names, target=None):
    """In a process of its own, which forks others."""
    only = [word for name in names for word in ("--only", name)]
    told = [] if target is None else ["--json", target]
    program = [sys.executable, Path(__file__).with_name("campaign.py"), *only, *told]
    return subprocess.run(program, capture_output=True, text=True, timeout=280, check=False)


@pytest.mark.slow
def test_commands_recover_from_everything(tmp_path):
    done = campaign("init", "check --quarantine", target=tmp_path / "reports/faults.json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 findings" in done.stdout
    tried = {line[:22].strip(): [int(cell) for cell in line[22:].split()] for line in done.stdout.splitlines()[1:3]}
    assert tried["init"][0] > 10
    assert all(killed > 4 for _, killed, *_ in tried.values())
    told = json.loads((tmp_path / "reports/faults.json").read_text())
    assert (told["findings"], told["kinds"]["clock"]) == ([], 4)
    assert told["kinds"]["killed"] == sum(killed for _, killed, *_ in tried.values())
    assert told["cases"] == sum(told["kinds"].values())


@pytest.mark.slow
def test_a_careless_command_is_found_out():
    done = campaign("careless")
    assert done.returncode == 1
    for finding in (
        "result.txt is opened for writing under its own name",
        "result.txt is neither as before nor as after",
        "FileExistsError",  # the command again, after a kill
        "no space from",
        "another one at",
    ):
        assert finding in done.stdout, done.stdout


def test_states_differ_by_names_and_contents_but_not_by_random_names(tmp_path):
    def state(name, content):
        folder = tmp_path / os.urandom(4).hex()
        folder.mkdir()
        (folder / name).write_text(content)
        return contents(folder)

    one = state(".runs.mfcp-abcd1234.csv", "x")
    assert key(one) == key(state(".runs.mfcp-zzzz9999.csv", "x"))
    assert key(one) != key(state(".runs.mfcp-abcd1234.csv", "y"))
    assert key(one) != key(state("runs.csv", "x"))
    assert results(one, "^$") == {}
    assert list(results(state("runs.csv", "x"), "^$")) == ["runs.csv"]
    assert results(state("runs.csv", "x"), "csv$") == {}
