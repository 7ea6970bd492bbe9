"""The command as a user meets it: exit codes, one line per error, JSON that a script can read."""

import ctypes
import os
import pty
import signal
import subprocess
import sys
import time
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import pytest
from commands.called import run

from mfcp.errors import DataError, guarded


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: COMMAND; see `mfcp --help`"),
        (["sovle"], "COMMAND: invalid choice: 'sovle' (choose from"),
        (["solve"], "the following arguments are required: --times, --reliability, --gamma; see `mfcp solve --help`"),
        (["check", "x", "--wide"], "--wide: not known here; see `mfcp check --help`"),
        (["check", "x", "y"], "y: not known here; see `mfcp check --help`"),
        (
            ["platform", "status", "--hoem=x"],
            "--hoem=x: not known here; did you mean --home?; see `mfcp platform status --help`",
        ),
        (
            ["benchmark", "--data", "x", "--out", "y", "--seeds", "0"],
            "--seeds: expected a whole number of at least 1, got 0; see `mfcp benchmark --help`",
        ),
        (
            ["platform", "assignments", "--round", "x"],
            "--round: invalid int value: 'x'; see `mfcp platform assignments",
        ),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(capsys, arguments, message):
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {message}")
    assert err.count("\n") == 1


def test_the_version_is_that_of_the_package(capsys):
    assert run(capsys, "--version") == (0, f"mfcp {version('mfcp')}\n", "")


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


class Attribute(int):
    is_there = property(signal.raise_signal)


def dropped():
    """Compiled code asks whether there is an attribute, and takes an interrupt for no."""
    ask = ctypes.pythonapi.PyObject_HasAttrString
    ask(ctypes.py_object(Attribute(signal.SIGINT)), b"is_there")
    time.sleep(20)


def wrapped():
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt as error:
        raise RuntimeError("a plugin failed") from error


@pytest.mark.parametrize("action", [lost, dropped, wrapped])
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


PRINTS = "import sys; from mfcp.errors import guarded; sys.exit(guarded(lambda: print('wörk …')))"


def test_a_terminal_of_another_alphabet_shows_names_escaped():
    options = {"env": {**os.environ, "PYTHONIOENCODING": "latin-1"}, "capture_output": True, "check": True}
    assert subprocess.run([sys.executable, "-c", PRINTS], **options).stdout == "wörk \\u2026\n".encode("latin-1")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("terminal", [False, True])
def test_names_of_strangers_do_nothing_to_a_terminal_and_files_have_them_to_the_letter(terminal):
    name = "\x1b]0;title\x07\x1b[2Ja\rb\u202ec\x1b[1md\x1b[0m\x9b2J\té"
    program = f"from mfcp.errors import guarded\nguarded(lambda: print({name!r}))"
    ours, theirs = pty.openpty() if terminal else os.pipe()
    environment = os.environ | {"PYTHONIOENCODING": "utf-8"}
    subprocess.run([sys.executable, "-c", program], stdout=theirs, env=environment, check=True)
    told = os.read(ours, 1000).decode()
    os.close(theirs)
    os.close(ours)
    shown = r"\x1b]0;title\x07\x1b[2Ja\rb\u202ec" + "\x1b[1md\x1b[0m" + r"\x9b2J" + "\té"
    assert told.rstrip("\r\n") == (shown if terminal else name)


def test_an_error_does_nothing_to_a_terminal_either(capsys):
    def fail():
        raise DataError("task 'a\x1b[2J\u202eb'")

    assert guarded(fail) == 2
    assert capsys.readouterr().err == "error: task 'a\\x1b[2J\\u202eb'\n"


def test_a_full_disk_behind_standard_output_is_one_line():
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-c", PRINTS], stdout=full, stderr=subprocess.PIPE, text=True)
    expected = "error: No space left on device: nothing more can be written; make room and run again\n"
    assert (done.returncode, done.stderr) == (2, expected)


def test_a_process_that_is_told_to_ignore_ctrl_c_does():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert guarded(lambda: signal.raise_signal(signal.SIGINT)) == 0
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
