"""The command as a user meets it: exit codes, one line per error, JSON that a script can read."""

import ctypes
import signal
import sys
import time
from contextlib import suppress

import pytest
from commands.called import run

from mfcp.errors import guarded


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


@pytest.fixture
def hears():
    """Ctrl-C as a program has it; a worker of pytest-xdist ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def lost():
    """Within a call from compiled code Python cannot raise it: it would print a traceback and go on."""
    ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(signal.SIGINT))()
    time.sleep(20)


def wrapped():
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt as error:
        raise RuntimeError("a plugin failed") from error


@pytest.mark.parametrize("action", [lost, wrapped])
def test_ctrl_c_is_neither_lost_nor_told_as_another_error(capsys, hears, action):
    before = signal.getsignal(signal.SIGINT), sys.unraisablehook
    begun = time.monotonic()
    assert guarded(action) == 130
    assert time.monotonic() - begun < 10
    assert capsys.readouterr() == ("", "interrupted: earlier results are unchanged; run again to go on\n")
    assert (signal.getsignal(signal.SIGINT), sys.unraisablehook) == before


@pytest.mark.parametrize("error", [RuntimeError("own"), SystemExit(3)])
def test_other_errors_stay_what_they_are(hears, error):
    def fails():
        with suppress(KeyboardInterrupt):
            if isinstance(error, SystemExit):
                signal.raise_signal(signal.SIGINT)
        raise error

    with pytest.raises(type(error), match=str(error)):
        guarded(fails)


def test_a_process_that_is_told_to_ignore_ctrl_c_does():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert guarded(lambda: signal.raise_signal(signal.SIGINT)) == 0
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
