"""Progress: a line in a log, a bar for a person."""

import sys

from mfcp.progress import progress


def test_without_a_terminal_it_is_one_line_on_standard_output(capsys):
    with progress("work", 3) as advance:
        for _ in range(3):
            advance()
    assert capsys.readouterr() == ("work …\n", "")


def test_on_a_terminal_it_is_a_bar_on_standard_error_that_goes_on(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    with progress("work", 3) as advance:
        advance()
    out, err = capsys.readouterr()
    assert out == ""
    assert "work" in err
