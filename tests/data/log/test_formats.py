"""Files of each format: what is damaged is named."""

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
    with pytest.raises(DataError, match=r"runs\.csv: .*Row #10: Expected \d+ columns, got \d+.*the header's 12 cells"):
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


@settings(max_examples=150, deadline=None)
@given(content=st.binary(max_size=60) | st.text(max_size=60).map(str.encode), format=st.sampled_from(FORMATS))
def test_no_content_gives_anything_but_a_data_error(tmp_path_factory, content, format):
    folder = tmp_path_factory.mktemp("log")
    (folder / f"tasks.{format}").write_bytes(content)
    with pytest.raises(DataError, match=r"tasks\."):
        read_tables(folder)


header = "run_id,task_id,cluster_id,attempt,step_time_s,samples_per_s,duration_s,status,started_at"


@settings(max_examples=60, deadline=None)
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
