"""Every limit of params.yaml is one: a file beyond it is refused, one below it is read."""

import gzip
import json
from pathlib import Path

import pytest

from mfcp.border.archives import read_packed
from mfcp.border.bounds import Limits
from mfcp.border.json_text import read_json
from mfcp.border.limits import limits
from mfcp.border.yaml_text import read_yaml
from mfcp.errors import DataError, SettingsError


def table(path, rows=20, columns=3):
    path.write_text(",".join(f"c{k}" for k in range(columns)) + "\n" + (",".join("0" * columns) + "\n") * rows)
    return read_packed(path)


def packed(path):
    path.with_suffix(".csv.gz").write_bytes(gzip.compress(b"a\n" + b"0\n" * 2000))
    return read_packed(path.with_suffix(".csv.gz"))


def stored(path):
    table(path).to_parquet(path.with_suffix(".parquet"))
    return read_packed(path.with_suffix(".parquet"))


def lines(path):
    path.with_suffix(".jsonl").write_text('{"a": 1}\n' * 2000)
    return read_packed(path.with_suffix(".jsonl"))


def tree(path, deep=10):
    path.write_text(json.dumps(["x" * 2000, eval("[" * deep + "]" * deep)]))
    return read_json(path)


def settings(path):
    path.write_text("a: [1, 2, 3, 4]\n" + "#" * 2000)
    return read_yaml(path, limits())


# Limit → a value that is too small for the file, and who reads it. Those of captured graphs, deliveries: their tests.
CASES = {
    "file_mib": (1e-5, table), "packed_mib": (1e-3, packed), "text_mib": (1e-3, lines), "table_mib": (1e-5, stored),
    "rows": (5, table), "columns": (2, table), "cells": (50, table), "json_mib": (1e-3, tree),
    "yaml_mib": (1e-3, settings), "values": (3, settings), "depth": (5, tree),
}  # fmt: skip
ELSEWHERE = {"nodes", "files"}


@pytest.mark.parametrize("name", CASES)
def test_a_limit_holds(tmp_path, monkeypatch, name):
    most, read = CASES[name]
    for folder, given in (("default", {}), ("small", {name: most})):
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        (tmp_path / folder / "params.yaml").write_text(json.dumps({"limits": given}))
        if given:
            with pytest.raises(DataError, match=r"limits. of params\.yaml"):
                read(tmp_path / folder / "a.csv")
        else:
            read(tmp_path / folder / "a.csv")


def test_every_limit_is_tried():
    assert set(CASES) | ELSEWHERE == set(Limits.model_fields)


def test_every_limit_is_told():
    text = (Path(__file__).parents[2] / "docs/data.md").read_text()
    told = text.partition("## How much a file may hold")[2].partition("\n## ")[0]
    for name, field in Limits.model_fields.items():
        assert f"`{name}`" in told
        assert f"{field.default:,.0f}" in told or f"{field.default:.0f}" in told


def test_wrong_limits_are_named(tmp_path, monkeypatch):
    for number, (text, message) in enumerate(
        [
            ("limits: {row: 5}", r"params\.yaml: limits\.row: Extra inputs are not permitted"),
            ("limits: {rows: many}", r"limits\.rows: Input should be a valid integer"),
            ("limits: [1]", r"params\.yaml: limits: Input should be a valid dictionary"),
        ]
    ):
        (tmp_path / str(number)).mkdir()
        monkeypatch.chdir(tmp_path / str(number))
        (tmp_path / str(number) / "params.yaml").write_text(text)
        with pytest.raises(SettingsError, match=message):
            limits()
