"""Table files of each format: what is damaged, or more than fits, is named."""

import gzip
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfcp.border import tables
from mfcp.border.bounds import Limits
from mfcp.border.tables import read_rows
from mfcp.data.log.coercion import coerce
from mfcp.data.log.schema import SCHEMA
from mfcp.data.log.tables import read_tables, write_tables
from mfcp.errors import DataError

FORMATS = ("parquet", "csv", "jsonl")


@pytest.fixture
def folder(tmp_path, small_log):
    write_tables(small_log(), tmp_path, format="csv")
    return tmp_path


def test_truncated_parquet(tmp_path, small_log):
    write_tables(small_log(), tmp_path)
    path = tmp_path / "runs.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match=r"runs\.parquet: not a whole Parquet file .* copy or write it again"):
        read_tables(tmp_path)


def test_damaged_parquet(tmp_path, small_log):
    write_tables(small_log(), tmp_path)
    path = tmp_path / "runs.parquet"
    content = bytearray(path.read_bytes())
    content[4:60] = b"\xff" * 56
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"runs\.parquet: not a whole Parquet file"):
        read_tables(tmp_path)


def test_byte_order_mark_is_accepted(folder):
    plain = read_tables(folder)
    path = folder / "tasks.csv"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    pd.testing.assert_frame_equal(read_tables(folder)["tasks"], plain["tasks"])


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf16_is_named(folder, encoding):
    path = folder / "tasks.csv"
    path.write_bytes(path.read_text().encode(encoding))
    with pytest.raises(DataError, match=r"tasks\.csv: encoded as UTF-16 .*save it as UTF-8"):
        read_tables(folder)


@pytest.mark.parametrize(
    ("start", "told"),
    [
        (b"PAR1", "a Parquet file, expected text; end its name with .parquet"),
        (b"PK\3\4\0\0", "a workbook or a zip archive, expected text; save the sheet as CSV, or unpack it"),
        (b"\xd0\xcf\x11\xe0", "a workbook, expected text; save the sheet as CSV"),
        (gzip.compress(b"task_id\na\n", mtime=0), "compressed by gzip, expected text; unpack it"),
        (b"\x28\xb5\x2f\xfd", "compressed by zstd, expected text; unpack it"),
    ],
    ids=["Parquet", "zip", "workbook", "gzip", "zstd"],
)
def test_a_file_of_another_format_is_told_as_that(tmp_path, start, told):
    for name in ("tasks.csv", "tasks.jsonl"):
        (tmp_path / name).write_bytes(start + b"\0\xff")
        with pytest.raises(DataError, match=rf"{name}: {re.escape(told)}"):
            read_rows(tmp_path / name)


def test_latin1_is_named_with_its_byte(folder):
    path = folder / "tasks.csv"
    start = len(path.read_bytes())
    path.write_bytes(path.read_bytes() + "modèle".encode("latin-1"))
    with pytest.raises(DataError, match=rf"tasks\.csv: byte {start + 3} \(0xe8\) is not UTF-8, probably Latin-1"):
        read_tables(folder)


@pytest.mark.parametrize("extra", ["a,b\n", ",".join("abcdefghijklmnopqrstuvw") + "\n"])
def test_ragged_csv_rows(folder, extra):
    path = folder / "runs.csv"
    path.write_text(path.read_text() + extra)
    width = len(path.read_text().split("\n")[0].split(","))
    told = rf"runs\.csv: .*Row #10: Expected {width} columns, got \d+.*the header's {width} cells"
    with pytest.raises(DataError, match=told):
        read_tables(folder)


def test_bad_json_line_is_named(tmp_path, small_log):
    write_tables(small_log(), tmp_path, format="jsonl")
    path = tmp_path / "runs.jsonl"
    path.write_text(path.read_text() + '{"run_id": "r9",\n')
    with pytest.raises(DataError, match=r"runs\.jsonl, line 9: not valid JSON"):
        read_tables(tmp_path)
    path.write_text("[1, 2]\n")
    with pytest.raises(DataError, match=r"runs\.jsonl, line 1: expected a JSON object, got \[1, 2\]"):
        read_tables(tmp_path)


@settings(max_examples=150)
@given(content=st.binary(max_size=60) | st.text(max_size=60).map(str.encode), format=st.sampled_from(FORMATS))
def test_no_content_gives_anything_but_a_data_error(tmp_path_factory, content, format):
    folder = tmp_path_factory.mktemp("log")
    (folder / f"tasks.{format}").write_bytes(content)
    with pytest.raises(DataError, match=r"tasks\."):
        read_tables(folder)


header = "run_id,task_id,cluster_id,attempt,step_time_s,samples_per_s,duration_s,status,started_at"


@settings(max_examples=60)
@given(rest=st.text(st.sampled_from('a1,"\n\r\t .-'), max_size=40))
def test_any_text_below_the_header_is_read_or_named(tmp_path_factory, rest):
    folder = tmp_path_factory.mktemp("log")
    (folder / "tasks.csv").write_text(
        "task_id,domain,model,batch_size,input_size,precision,phase,param_count,flops,"
        "activations,graph_id\n" + ",".join("1" * 11) + "\n"
    )
    (folder / "clusters.csv").write_text(
        "cluster_id,accelerator,accelerator_count,memory_bytes,peak_flops,"
        "memory_bandwidth,interconnect_bandwidth,software\n" + ",".join("1" * 8)
    )
    (folder / "runs.csv").write_text(header + "\n" + rest)
    problem = ""
    try:
        tables = read_tables(folder)
    except DataError as error:
        problem = str(error)
    assert "runs.csv" in problem or set(header.split(",")) <= set(tables["runs"])


def test_small_whole_numbers_of_parquet_stay_whole_beside_empty_cells(tmp_path, small_log):
    write_tables(small_log(), tmp_path)
    arrow = pyarrow.parquet.read_table(tmp_path / "tasks.parquet")
    arrow = arrow.set_column(arrow.column_names.index("model"), "model", pa.array([7, None], pa.int8()))
    arrow = arrow.set_column(arrow.column_names.index("flops"), "flops", pa.array([[1.0, 2.0], None]))
    pyarrow.parquet.write_table(arrow, tmp_path / "tasks.parquet")
    tasks = read_tables(tmp_path)["tasks"]
    assert tasks["model"].iloc[0] == "7"
    assert coerce(SCHEMA["tasks"], tasks).wrong["flops"].tolist() == [True, False]


def test_a_blank_first_line_changes_no_id(tmp_path):
    """pyarrow takes the first line that is not empty for the header, and guesses types of columns that nobody names."""
    for begin in ("", "\n", "\r\n\n"):
        (tmp_path / "a.csv").write_text(f"{begin}task_id,n\n000,1\n001,2\n")
        assert read_rows(tmp_path / "a.csv").to_dict("list") == {"task_id": ["000", "001"], "n": ["1", "2"]}


@pytest.mark.parametrize("header", ["  \n\na,b", '"a\n",b', "a,,b", '"""",a', "\x0b", "\u2028a,b"])
def test_whatever_the_header_is_cells_stay_text(tmp_path, header):
    (tmp_path / "a.csv").write_text(f"{header}\n000,1,2\n")
    try:
        frame = read_rows(tmp_path / "a.csv")
    except DataError:
        return
    assert all(isinstance(cell, str) for cell in frame.to_numpy().ravel())


@pytest.mark.parametrize("format", FORMATS)
def test_columns_that_occur_twice_are_named(tmp_path, format):
    path = tmp_path / f"a.{format}"
    if format == "parquet":
        pa.parquet.write_table(pa.table([[1], [2]], names=["x", "x"]), path)
    else:
        path.write_text("x,x\n1,2\n" if format == "csv" else "[]")
    with pytest.raises(DataError, match="column x occurs twice; keep one" if format != "jsonl" else "JSON object"):
        read_rows(path)


def parquet_of(path, **columns):
    pa.parquet.write_table(pa.table(columns), path)
    return path


DAMAGED = {
    "text that is not UTF-8": lambda p: parquet_of(p, a=_not_utf8()),
    "a time zone that nobody knows": lambda p: parquet_of(p, a=pa.array([0], pa.timestamp("us", tz="Nowhere/At_all"))),
    "times out of range": lambda p: parquet_of(p, a=pa.array([0, 2**60], pa.timestamp("ms", tz="UTC"))),
    "dates out of range": lambda p: parquet_of(p, a=pa.array([2**30], pa.date32())),
}


def _not_utf8():
    raw = pa.array([b"\xff\xfe"])
    return pa.Array.from_buffers(pa.string(), 1, raw.buffers())


@pytest.mark.parametrize("what", DAMAGED)
def test_parquet_with_values_that_pandas_cannot_hold(tmp_path, what):
    with pytest.raises(DataError, match=r"a\.parquet: not a whole Parquet file \(.*copy or write it again"):
        read_rows(DAMAGED[what](tmp_path / "a.parquet"))


def test_damaged_metadata_of_pandas_do_not_matter(tmp_path):
    table = pa.table({"a": [1]}).replace_schema_metadata({"pandas": "{no JSON", "ARROW:schema": "///"})
    pa.parquet.write_table(table, tmp_path / "a.parquet", store_schema=False)
    assert read_rows(tmp_path / "a.parquet")["a"].tolist() == [1]


def test_a_small_file_of_a_large_table_is_refused_within_its_memory(tmp_path, monkeypatch):
    """A million times the same kilobyte: a file of some kilobytes."""
    text = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1 << 20, np.int32)), pa.array(["x" * 1024]))
    path = parquet_of(tmp_path / "a.parquet", a=text.cast(pa.string()), b=np.zeros(1 << 20))
    assert path.stat().st_size < 1 << 20
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text("limits: {table_mib: 256}\n")
    before = pa.total_allocated_bytes()
    with pytest.raises(DataError, match=r"more than 256 MiB in memory; see `limits` of params\.yaml"):
        read_rows(path)
    assert pa.default_memory_pool().max_memory() - before < 1.6 * 2**30


@pytest.mark.parametrize("text", ["string", "large_string", "dictionary"])
def test_text_is_the_same_however_it_is_stored(tmp_path, text):
    values = pa.array(["a", None, "", "a", "é"])
    stored = values.dictionary_encode() if text == "dictionary" else values.cast(getattr(pa, text)())
    frame = read_rows(parquet_of(tmp_path / "a.parquet", a=stored))
    assert frame["a"].astype(object).where(frame["a"].notna(), None).tolist() == ["a", None, "", "a", "é"]


def test_json_cells_that_no_column_holds(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1' + "0" * 5000 + ', "b": -9223372036854775808, "c": NaN, "d": "\\u00e9", "e": [1]}\n')
    row = read_rows(path).iloc[0]
    assert row["a"] == "1" + "0" * 5000
    assert (row["b"], row["c"], row["d"], row["e"]) == (-(2**63), "NaN", "é", [1])
    path.write_text('{"a": 1}\n{"a": "\\ud800"}\n')
    with pytest.raises(DataError, match=r"a\.jsonl, line 2: not valid JSON \(text holds half a character"):
        read_rows(path)
    path.write_text('{"a": ' + "[" * 5000 + "]" * 5000 + "}\n")
    with pytest.raises(DataError, match=r"a\.jsonl, line 1: .* more than 100 deep"):
        read_rows(path)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_a_row_too_many_is_refused_and_not_cut(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(tables, "limits", lambda: Limits(rows=3))
    for count in (3, 4):
        path = tmp_path / f"{count}{suffix}"
        frame = pd.DataFrame({"a": [str(k) for k in range(count)]})
        if suffix == ".jsonl":
            frame.to_json(path, orient="records", lines=True)
        else:
            getattr(frame, {".csv": "to_csv", ".parquet": "to_parquet"}[suffix])(path, index=False)
    assert read_rows(tmp_path / f"3{suffix}")["a"].tolist() == ["0", "1", "2"]
    with pytest.raises(DataError, match="4 rows"):
        read_rows(tmp_path / f"4{suffix}")
