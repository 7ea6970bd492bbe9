"""Writing: what is written is read back, and the same table gives the same bytes."""

import numpy as np
import pandas as pd
import pytest

from mfcp.border.tables import read_rows
from mfcp.data.log.formats import WRITERS, write_sheet

TIMES = ["2026-01-01T00:00:00.5Z", None, "2026-01-02T00:00:00Z"]
FRAME = pd.DataFrame(
    {
        "text": pd.Series(["a", None, 'é, "quoted"\nline'], dtype="str"),
        "whole": pd.Series([2**62 + 1, None, -1], dtype="Int64"),
        "real": [0.1, np.nan, 1e300],
        "time": pd.Series(pd.to_datetime(TIMES, format="ISO8601", utc=True)),
        "mixed": pd.Series(["a", 1, 2.5], dtype=object),
    }
)


@pytest.mark.parametrize("ending", WRITERS)
def test_what_is_written_is_read_back(tmp_path, ending):
    for name in ("a", "b"):
        WRITERS[ending](FRAME, tmp_path / f"{name}{ending}")
    assert (tmp_path / f"a{ending}").read_bytes() == (tmp_path / f"b{ending}").read_bytes()
    back = read_rows(tmp_path / f"a{ending}")
    assert list(back) == list(FRAME)
    assert back.isna().to_numpy().tolist() == FRAME.isna().to_numpy().tolist()
    assert back["text"].dropna().tolist() == FRAME["text"].dropna().tolist()
    assert [int(v) for v in back["whole"].dropna()] == [2**62 + 1, -1]
    assert [float(v) for v in back["real"].dropna()] == [0.1, 1e300]
    assert pd.to_datetime(back["time"], utc=True, format="ISO8601").dropna().tolist() == FRAME["time"].dropna().tolist()
    assert [str(v) for v in back["mixed"]] == ["a", "1", "2.5"]


def test_no_spreadsheet_runs_what_a_stranger_wrote(tmp_path):
    cells = ["=cmd()", "+1+1", "-2+3", "@SUM(A1)", "\t=1", "-3", "+4.5", "a=b", "", None, "night-1"]
    frame = pd.DataFrame({"id": pd.Series(cells, dtype="str"), "n": range(11), "kind": pd.Categorical(cells)})
    write_sheet(frame, tmp_path / "a.csv")
    back = pd.read_csv(tmp_path / "a.csv", dtype=str, keep_default_na=False)
    expected = ["'=cmd()", "'+1+1", "'-2+3", "'@SUM(A1)", "'\t=1", "-3", "+4.5", "a=b", "", "", "night-1"]
    assert back["id"].tolist() == back["kind"].tolist() == expected
    assert back["n"].tolist() == [str(k) for k in range(11)]
