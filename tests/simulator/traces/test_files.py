"""Tables of traces: headers that publishers left out, and columns of numbers."""

import numpy as np
import pandas as pd
import pytest

from mfcp.errors import DataError
from mfcp.simulator.traces.files import PAI, numbers, read_table


def test_tables_that_are_published_without_headers(tmp_path):
    for name, header in PAI.items():
        columns = header.split(",")
        row = ",".join(map(str, range(len(columns))))
        for text in (f"{row}\n", f"{header}\n{row}\n"):
            (tmp_path / f"{name}.csv").write_text(text)
            frame = read_table(tmp_path / f"{name}.csv")
            assert list(frame) == columns
            assert frame.to_numpy().tolist() == [list(map(str, range(len(columns))))]


@pytest.mark.parametrize(
    ("cell", "bounds", "message"),
    [
        ("x", {}, r"a\.csv: row 2: n is 'x', expected a number of 0 or more"),
        (None, {}, "row 2: n is None"),
        ("-1", {}, "row 2: n is '-1'"),
        ("1.5", {"whole": True}, "expected a whole number of 0 or more"),
        ("7", {"below": 7}, "row 2: n is '7'"),
        ("3", {"least": 4}, "expected a number of 4 or more"),
        ("inf", {}, "row 2: n is 'inf'"),
        ("nan", {}, "row 2: n is 'nan'"),
    ],
)
def test_cells_that_are_no_such_number_are_named(tmp_path, cell, bounds, message):
    frame = pd.DataFrame({"n": pd.Series(["5", cell, "6"], dtype=object)})
    with pytest.raises(DataError, match=message):
        numbers(tmp_path / "a.csv", frame, "n", **bounds)
    assert numbers(tmp_path / "a.csv", frame.iloc[[0, 2]], "n").tolist() == [5.0, 6.0]
    assert np.issubdtype(numbers(tmp_path / "a.csv", frame.iloc[:1], "n").dtype, np.floating)


def test_columns_that_are_needed_are_named_all_at_once(tmp_path):
    path = tmp_path / "cases.csv"
    path.write_text("device,batch\nA,1\n")
    assert list(read_table(path, ("batch", "device"))) == ["device", "batch"]
    with pytest.raises(DataError, match=r"cases\.csv: no column latency_s, model; there are device, batch"):
        read_table(path, ("latency_s", "device", "model"))


@pytest.mark.parametrize(
    ("cells", "told"), [([5.0, -1.0], "n is -1.0,"), ([5, -1], "n is -1,"), (["5", "x" * 200], "…")]
)
def test_a_wrong_cell_is_told_as_people_write_it(tmp_path, cells, told):
    with pytest.raises(DataError, match=rf"row 2: .*{told}") as caught:
        numbers(tmp_path / "a.parquet", pd.DataFrame({"n": cells}), "n")
    assert "np." not in str(caught.value)
    assert len(str(caught.value)) < len(str(tmp_path)) + 200
