"""The quarantine names the row of the file and the value as it was read."""

import pytest

from mfcp.data.log.tables import read_tables, write_tables
from mfcp.data.log.validation import TooManyBadRowsError, validate


def with_cell(log, name, column, row, value):
    """The log with one cell changed."""
    tables = log()
    values = tables[name][column].astype(object)
    values.iloc[row] = value
    tables[name][column] = values
    return tables


def test_bad_cells_of_files_are_named_by_row(tmp_path, small_log):
    write_tables(with_cell(small_log, "runs", "duration_s", 5, "12 s"), tmp_path, format="csv")
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    with pytest.raises(TooManyBadRowsError, match=r"row 6, key 'r5', value '12 s'"):
        validate(read_tables(tmp_path), max_bad_share=0.0)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before
