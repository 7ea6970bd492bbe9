"""`mfcp init --source`: what a site has already, as a folder in the log schema. The rest is walked in tests/walk."""

from __future__ import annotations

from pathlib import Path

import pytest

from mfcp.cli import main

MADE = Path(__file__).parents[1] / "data" / "sources" / "made_here"


def mfcp(*arguments: object) -> int:
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return int(end.value.code or 0)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("{{kind: sacct, path: {made}/sacct.psv}}", "tasks: 5 rows, clusters: 1 rows, runs: 6 rows"),
        ("{{kind: mlflow, path: {made}/mlflow.csv}}", "tasks: 2 rows, clusters: 1 rows, runs: 2 rows"),
        ("{{kind: kineto, path: {made}/small-net.json, cluster: a}}", "nodes: 5 rows, edges: 4 rows"),
    ],
)
def test_a_folder_is_filled_and_can_be_checked(tmp_path, capsys, source, told):
    folder = tmp_path / "log"
    assert mfcp("init", folder, "--source", source.format(made=MADE)) == 0
    assert told in capsys.readouterr().out
    assert mfcp("check", folder) in (0, 1)  # what is thin is told; nothing is refused
    assert "Traceback" not in capsys.readouterr().err
    assert mfcp("init", folder, "--source", source.format(made=MADE)) == 2
    assert "is there already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{kind: excel, path: x}", "unknown source kind 'excel'"),
        ("{kind: folder, path: x}", "--source"),  # a log already, for `mfcp check`
        ("{kind: sacct}", "path: Field required"),
        ("{kind: sacct, path: nowhere.psv}", "nowhere.psv"),
        ("[", "--source"),
    ],
)
def test_wrong_sources_say_what_is_expected(tmp_path, capsys, source, message):
    assert mfcp("init", tmp_path / "log", "--source", source) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "log").exists()


def test_commands_to_copy_have_a_folder_with_spaces_in_quotes(tmp_path, capsys):
    folder = tmp_path / "my log"
    assert mfcp("init", folder) == 0
    assert f"`mfcp check '{folder}'`" in capsys.readouterr().out
    assert f"$ mfcp release --data '{folder}' --out my-release" in (folder / "README.md").read_text()
    assert mfcp("check", folder) == 0
    assert f"  mfcp release --data '{folder}' --out my-release\n" in capsys.readouterr().out
