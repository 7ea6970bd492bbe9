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
    assert printed.count("123,456") == 7
    assert max(map(len, printed.splitlines())) <= 80


def test_columns_that_do_not_fit_follow(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    rows = [[name, *(f"{k},000,{name[:3]}" for k in range(12))] for name in ("las:limits=[600,3600]", "fifo")]
    print_table(["policy", *(f"t{k}" for k in range(12))], rows)
    printed = capsys.readouterr().out
    assert printed.count("policy") == 3
    assert all(cell in printed for row in rows for cell in row[1:])
    assert max(map(len, printed.splitlines())) <= 80


def test_seven_figures_of_a_long_name_fit(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    figures = ["3,148", "15,429", "1.780", "255,964", "0.558", "0.870", "1,250"]
    print_table(
        ["policy", "mean JCT [s]", "p95 JCT [s]", "to start [s]", "makespan [s]", "used", "met", "stops"],
        [["elastic_flow:slot_s=240", *figures]],
    )
    printed = capsys.readouterr().out
    assert all(figure in printed for figure in figures)
