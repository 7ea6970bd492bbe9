"""The command as a user meets it: exit codes, one line per error, JSON that a script can read."""

import pytest
from commands.called import run


@pytest.mark.parametrize(
    "arguments", [[], ["sovle"], ["solve"], ["benchmark", "--data", "x", "--out", "y", "--seeds", "0"]]
)
def test_bad_usage_is_exit_code_2(capsys, arguments):
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert "usage: mfcp" in err


def test_ctrl_c_while_commands_are_imported_is_one_line(monkeypatch, capsys):
    from mfcp import cli

    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "make_parser", interrupted)
    code, out, err = run(capsys, "check", "x")
    assert (code, out) == (130, "")
    assert err == "interrupted: earlier results are unchanged; run again to go on\n"
