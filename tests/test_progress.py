"""Progress: a line in a log, a bar for a person."""

import sys

from rich.table import Table

from mfcp.progress import console, progress

ODD = "[/x] [bold]night :smile: [s]"  # a task, a folder or a policy may have such a name


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
    with progress(f"work {ODD}", 3) as advance:
        advance()
    out, err = capsys.readouterr()
    assert out == ""
    assert f"work {ODD}" in err


def test_names_in_tables_are_printed_as_they_are(capsys):
    table = Table(title="took [s]")
    table.add_column(ODD)
    table.add_row(ODD)
    console(80).print(table)
    printed = capsys.readouterr().out
    assert printed.count(ODD) == 2
    assert "took [s]" in printed
