"""Files only: what else lies where a file is expected is named, at once."""

import os
import socket
import stat

import pytest

from mfcp.border.regular import kind_of, opened, printable, refusing
from mfcp.errors import DataError, SettingsError


def pipe(path):
    os.mkfifo(path)


def device(path):
    path.symlink_to("/dev/zero")


def listening(path):
    with socket.socket(socket.AF_UNIX) as own:
        own.bind(str(path))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (pipe, "a named pipe; expected a file"),
        (device, "a device; expected a file"),
        (lambda path: path.mkdir(), "a folder; expected a file"),
        (listening, "cannot open"),
        (lambda path: path.touch(), "empty file; expected a table"),
        (lambda path: path.write_bytes(b"x" * 2000), "0 MiB; expected at most 0.001, see `limits` of params.yaml"),
        (lambda path: path.symlink_to("nowhere"), "no such file; expected a table"),
        (lambda path: path.symlink_to(path), "cannot open"),
    ],
)
def test_what_is_no_file_is_told_without_waiting(tmp_path, monkeypatch, make, message):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "log"
    make(path)
    with pytest.raises(DataError, match=message), opened(path, 0.001):
        pass


def test_a_link_to_a_file_is_a_file(tmp_path):
    """As DVC links the files of its cache into the working folder."""
    (tmp_path / "a").write_text("content")
    (tmp_path / "b").symlink_to("a")
    with opened(tmp_path / "b", 1) as file:
        assert file.read() == b"content"


def test_kinds_of_things(tmp_path):
    assert kind_of(tmp_path.stat().st_mode) == "a folder"
    assert kind_of(stat.S_IFLNK | 0o777) == "a link"
    assert kind_of(stat.S_IFREG | 0o644) == ""


@pytest.mark.parametrize(
    "error", [ValueError("a\nb"), RecursionError(), LookupError(), AttributeError("x"), OSError(5, "I")]
)
def test_whatever_a_reader_raises_names_the_file(error):
    with pytest.raises(DataError, match=r"log: not a table \(.+\); copy or write it again"), refusing("log", "a table"):
        raise error


def test_what_was_meant_for_people_and_ctrl_c_pass(capsys):
    for error in (SettingsError("mine"), KeyboardInterrupt()):
        with pytest.raises(type(error)) as raised, refusing("log", "a table"):
            raise error
        assert raised.value is error
    with pytest.raises(DataError, match="takes more memory than there is"), refusing("log", "a table"):
        raise MemoryError


def test_names_for_terminals_and_databases():
    assert printable("é 漢") == "é 漢"
    assert printable("a\nb\x1b[31m\udcff") == r"a\nb\x1b[31m\udcff"
