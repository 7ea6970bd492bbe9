"""Tables that are compressed, in archives, or arrays, and what is none of these."""

import gzip
import json
import tarfile

import pandas as pd
import pytest

from mfcp.border.archives import read_packed
from mfcp.errors import DataError

TEXT = "submit,duration,gpus\n0,1,2\n"


def archive_of(path, **content):
    for name, text in content.items():
        (path.parent / f"{name}.csv").write_text(text)
    with tarfile.open(path, "w:gz") as archive:
        for name in content:
            archive.add(path.parent / f"{name}.csv", f"inner/{name}.csv")
    return path


def test_the_same_table_in_every_form(tmp_path):
    (tmp_path / "a.csv").write_text(TEXT)
    (tmp_path / "a.json").write_text(json.dumps([{"submit": "0", "duration": "1", "gpus": "2"}]))
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(TEXT.encode()))
    (tmp_path / "a").write_text((tmp_path / "a.json").read_text())
    plain = read_packed(tmp_path / "a.csv")
    for path in (tmp_path / "a.json", tmp_path / "a.csv.gz", tmp_path / "a", archive_of(tmp_path / "a.tgz", b=TEXT)):
        assert read_packed(path).astype(str).equals(plain.astype(str))


def test_an_archive_of_several_tables_tells_their_names(tmp_path):
    with pytest.raises(DataError, match=r"both\.tar\.gz: holds 2 tables \(inner/a\.csv, inner/b\.csv\); unpack it"):
        read_packed(archive_of(tmp_path / "both.tar.gz", a=TEXT, b=TEXT))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.xlsx", b"x", r"a\.xlsx: expected a file that ends in"),
        ("a.csv.gz", gzip.compress(b"submit\n0\n" * 99, mtime=0)[:-20], r"a\.csv\.gz: not a whole compressed file"),
        ("a.csv.gz", b"no gzip", r"a\.csv\.gz: not a whole compressed file"),
        ("a.json", b"{", r"a\.json: not valid JSON"),
        ("a.json", b"[1]", r"a\.json: expected an array of JSON objects"),
        ("a.json", b"[" * 100_000, r"a\.json: lists and objects within each other, more than 100 deep"),
        ("a.csv.gz", gzip.compress(b"a,b\n1,2\n3\n", mtime=0), r"a\.csv: .*every row needs the header's 2 cells"),
    ],
    ids=["ending", "cut", "no gzip", "no JSON", "numbers", "deep", "ragged"],
)
def test_what_is_no_table_is_told(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message) as error:
        read_packed(tmp_path / name)
    assert "mfcp-trace-" not in str(error.value)


def test_a_small_file_does_not_become_a_large_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text("limits: {packed_mib: 1}\n")
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"submit\n" + b"0\n" * (1 << 20)))
    with pytest.raises(DataError, match="unpacks to more than"):
        read_packed(tmp_path / "a.csv.gz")


def test_text_beside_the_table_of_an_archive_is_no_table(tmp_path):
    (tmp_path / "a.csv").write_text(TEXT)
    (tmp_path / "README.txt").write_text("What | it is\n")
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        for name in ("README.txt", "a.csv"):
            archive.add(tmp_path / name, name)
    pd.testing.assert_frame_equal(read_packed(tmp_path / "a.tar.gz"), read_packed(tmp_path / "a.csv"))


def test_an_archive_in_another_compression_is_not_opened(tmp_path):
    (tmp_path / "a.csv").write_text(TEXT)
    with tarfile.open(tmp_path / "a.tar.gz", "w:xz") as archive:
        archive.add(tmp_path / "a.csv", "a.csv")
    with pytest.raises(DataError, match=r"a\.tar\.gz: not a whole compressed file"):
        read_packed(tmp_path / "a.tar.gz")


def test_an_archive_that_says_it_holds_more_than_there_may_be(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text("limits: {packed_mib: 1}\n")
    with pytest.raises(DataError, match="unpacks to more than 1 MiB"):
        read_packed(archive_of(tmp_path / "a.tar.gz", a="submit\n" + "0\n" * (1 << 20)))


def test_a_header_that_the_publisher_left_out(tmp_path):
    for content in ("7,8\n", "a,b\n7,8\n"):
        (tmp_path / "own.csv").write_text(content)
        (tmp_path / "own.csv.gz").write_bytes(gzip.compress(content.encode()))
        for name in ("own.csv", "own.csv.gz"):
            frame = read_packed(tmp_path / name, headers={"own": "a,b"})
            assert frame.to_dict("list") == {"a": ["7"], "b": ["8"]}
