"""Tables for a terminal."""

import pytest

from mfcp.commands.simulating.tables import print_table, text_of


def test_numbers_are_short():
    numbers = (float("nan"), 0.0, 0.12345, 9.0, 12345.6, 2.5e8)
    assert list(map(text_of, numbers)) == ["-", "0", "0.123", "9", "12,346", "250.00 M"]


@pytest.mark.parametrize("name", ["fifo", "las:limits=[600,3600]", "x" * 100])
def test_the_first_column_is_there_in_80_columns(name, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    print_table(["policy", *(f"a title {k} [s]" for k in range(7))], [[name, *["123,456"] * 7]])
    printed = capsys.readouterr().out
    assert name[:12] in printed
    assert max(map(len, printed.splitlines())) <= 80
