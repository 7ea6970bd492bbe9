"""Columns of names: aligned in cells of a terminal, whatever the script, and no wider than their place."""

from rich.cells import cell_len

from mfcp.border.columns import WIDEST, column_width, padded


def test_every_script_ends_at_the_same_cell():
    names = ["c0", "任务集群", "ünï", "e\u0301"]
    width = column_width(names, 7)
    assert width == 8
    assert {cell_len(padded(name, width)) for name in names} == {8}


def test_one_long_name_does_not_widen_the_lines_of_all_others():
    width = column_width(["short", "x" * 200], 7)
    assert width == WIDEST
    assert len(padded("short", width)) == WIDEST
    assert padded("x" * 200, width) == "x" * 200


def test_a_heading_has_its_place():
    assert column_width(["a"], 7) == 7
    assert column_width([], 4) == 4
