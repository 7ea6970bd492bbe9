"""A log in parts gives what the same log in memory gives: report, quarantine, valid rows."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfcp.data.log import copying, parted, parts
from mfcp.data.log.expectations import Expectations
from mfcp.data.log.parted import validate_parts
from mfcp.data.log.tables import read_tables
from mfcp.data.log.validation import TooManyBadRowsError, validate, write_report
from mfcp.errors import DataError

TASKS = [f"t{k}" for k in range(6)] + ["example-task"]
CLUSTERS = ["a", "b", "example-cluster"]


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """In this process: workers do not know what tests have changed."""
    monkeypatch.setattr(parts, "cores", lambda: 1)


def log_of(folder, runs, tasks=TASKS):
    folder.mkdir(exist_ok=True)
    pd.DataFrame({"task_id": tasks, "modell": "resnet-50", "samples": 10.0}).to_csv(folder / "tasks.csv", index=False)
    pd.DataFrame({"cluster_id": CLUSTERS}).to_csv(folder / "clusters.csv", index=False)
    pd.DataFrame({"task_id": ["t0", "t5"], "cluster_id": "a", "duration_s": [1.0, -1]}).to_csv(
        folder / "truth.csv", index=False
    )
    pd.DataFrame(runs).to_csv(folder / "runs.csv", index=False)
    return folder


def hostile(seed, rows=60):
    """Runs with every kind of error, most of them in several parts."""
    rng = np.random.default_rng(seed)
    ids = [f"r{k}" for k in rng.integers(0, 4 * rows, rows)]
    runs = {
        "run_id": [None if rng.random() < 0.05 else name for name in ids],
        "task_id": rng.choice([*TASKS, "nobody"], rows, p=[0.15] * 6 + [0.05, 0.05]),
        "cluster_id": rng.choice(["a", "b", ""], rows, p=[0.5, 0.47, 0.03]),
        "duration_s": rng.choice(["12.5", "12 s", "-1", "", "nan", "1e12"], rows, p=[0.7, *[0.06] * 5]),
        "status": rng.choice(["succeeded", "failed", ""], rows, p=[0.5, 0.45, 0.05]),
        "started_at": rng.choice(["2026-01-01T00:00:00Z", "yesterday", ""], rows, p=[0.9, 0.05, 0.05]),
        "duraton_s": "1",
        "batch": [str(k) for k in range(rows)],
    }
    runs["run_id"][rows // 2] = "example-run"
    runs["status"] = np.where(runs["task_id"] == "t5", "failed", runs["status"])  # never succeeds
    return runs


def in_parts(source, tmp_path, rows, monkeypatch):
    monkeypatch.setattr(copying, "PART_ROWS", rows)
    raw = tmp_path / "raw"
    raw.mkdir()
    copying.copy_log(source, raw, tmp_path / ".raw.parts")
    assert not (tmp_path / ".raw.parts").exists()
    return raw


def both(source, tmp_path, rows, monkeypatch, **how):
    """(in memory, in parts): each report, quarantine and valid tables."""
    memory = validate(read_tables(source), **how)
    raw = in_parts(source, tmp_path, rows, monkeypatch)
    assert (raw / "runs").is_dir()
    out = tmp_path / "valid"
    out.mkdir()
    with parts.kept_for_next(tmp_path / ".valid.parts") as scratch:
        found = validate_parts(raw, scratch, **how)
        sheets = pd.concat(found.sheets(), ignore_index=True)
        found.write_runs(out)
        write_report(found, tmp_path / "report")
    return memory, (found, sheets, out)


def same(memory, found, sheets, out):
    def ordered(frame):
        return sorted(map(tuple, frame.astype(str).to_numpy().tolist()))

    assert found.report == memory.report
    assert ordered(sheets) == ordered(memory.quarantine)
    valid = {**found.tables, "runs": parted.read_table(out / "runs", parted.RUNS)}
    assert set(valid) == set(memory.tables)
    for name, frame in memory.tables.items():
        pd.testing.assert_frame_equal(valid[name][list(frame)], frame, check_dtype=False)
        for column in parted.SCHEMA[name].columns:
            assert valid[name][column.name].dtype == frame[column.name].dtype


@pytest.mark.parametrize("rows", [1, 7, 59])
def test_a_log_in_parts_gives_what_it_gives_in_memory(tmp_path, monkeypatch, rows):
    memory, (found, sheets, out) = both(
        log_of(tmp_path / "log", hostile(0)), tmp_path, rows, monkeypatch, max_bad_share=1.0
    )
    kinds = set(memory.quarantine["constraint"])
    assert kinds == {"type", "missing", "range", "unique", "reference", "no_success", "example"}
    same(memory, found, sheets, out)


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), rows=st.integers(1, 30))
def test_so_does_any_log(tmp_path_factory, seed, rows):
    tmp_path = tmp_path_factory.mktemp("log")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "cores", lambda: 1)
        source = log_of(tmp_path / "log", hostile(seed, min(31, 5 * rows)))  # in 2 to 5 parts; 60 of one row: above
        memory, (found, sheets, out) = both(source, tmp_path, rows, patch, max_bad_share=1.0)
        same(memory, found, sheets, out)


def test_the_quarantine_counts_rows_through_all_parts(tmp_path, monkeypatch):
    runs = hostile(0, 20) | {"duration_s": ["1"] * 18 + ["no", "1"]}
    memory, (_, sheets, _) = both(log_of(tmp_path / "log", runs), tmp_path, 6, monkeypatch, max_bad_share=1.0)
    wrong = sheets[sheets["constraint"] == "type"]
    assert wrong.loc[wrong["column"] == "duration_s", "row"].tolist() == [19]
    written = pd.read_csv(tmp_path / "report" / "quarantine.csv")
    assert len(written) == len(memory.quarantine)
    assert json.loads((tmp_path / "report" / "validation.json").read_text())["tables"]["runs"]["rows"] == 20


def test_the_same_error_says_that_too_many_rows_are_bad(tmp_path, monkeypatch):
    source = log_of(tmp_path / "log", hostile(1))
    with pytest.raises(TooManyBadRowsError) as memory:
        validate(read_tables(source), max_bad_share=0.01)
    raw = in_parts(source, tmp_path, 9, monkeypatch)
    with pytest.raises(TooManyBadRowsError) as found, parts.kept_for_next(tmp_path / ".valid.parts") as scratch:
        validate_parts(raw, scratch, max_bad_share=0.01)
    assert str(found.value) == str(memory.value)
    assert (tmp_path / ".valid.parts" / "checked").is_dir()  # the next try need not do it again


def test_hashes_that_collide_by_one_secret_repeat_nothing(tmp_path, monkeypatch):
    def poor(keys, secret):
        real = pd.util.hash_array(keys.to_numpy(object), hash_key=secret, categorize=False)
        return real if secret.startswith("2") else real & np.uint64(3)

    monkeypatch.setattr(parted, "_hashes", poor)
    made = iter(("1" * 16, "2" * 16))
    monkeypatch.setattr(parted.secrets, "token_hex", lambda _: next(made))
    memory, rest = both(log_of(tmp_path / "log", hostile(2)), tmp_path, 8, monkeypatch, max_bad_share=1.0)
    same(memory, *rest)


def test_buckets_find_what_one_sort_finds(monkeypatch):
    rng = np.random.default_rng(0)
    hashes = [rng.integers(0, 2**64, 300, dtype=np.uint64) for _ in range(3)]
    hashes[2][:5], hashes[1][0] = hashes[0][:5], hashes[1][1]
    expected = np.sort([*hashes[0][:5], hashes[1][0]])
    hashes = [np.sort(own) for own in hashes]
    assert parted._twice(hashes).tolist() == expected.tolist()
    monkeypatch.setattr(parted, "_BUCKET", 16)
    assert parted._twice(hashes).tolist() == expected.tolist()


class TestOwnExpectations:
    def context(self, tmp_path, **own):
        made = Expectations(tmp_path / "gx")
        path = tmp_path / "gx" / "expectations" / "runs.json"
        suite = json.loads(path.read_text())
        suite["expectations"].append({"kwargs": {}, "meta": {}} | own)
        path.write_text(json.dumps(suite))
        return Expectations(made.folder)

    def test_those_of_each_row_hold_in_every_part(self, tmp_path, monkeypatch):
        kind = "expect_column_values_to_not_be_in_set"
        kwargs = {"column": "batch", "value_set": ["3", "33"]}
        runs = hostile(3, 40) | {"duration_s": ["1"] * 40}
        source = log_of(tmp_path / "log", runs)
        raw = in_parts(source, tmp_path, 16, monkeypatch)
        with parts.kept_for_next(tmp_path / ".valid.parts") as scratch:
            own = self.context(tmp_path, type=kind, kwargs=kwargs)
            found = validate_parts(raw, scratch, max_bad_share=1.0, expectations=own)
            sheets = pd.concat(found.sheets())
        assert sheets.loc[sheets["constraint"] == "expectation", "row"].tolist() == [4, 34]

    @pytest.mark.parametrize("kind", ["expect_column_mean_to_be_between", "expect_column_values_to_be_unique"])
    def test_those_of_the_whole_table_are_refused(self, tmp_path, monkeypatch, kind):
        raw = in_parts(log_of(tmp_path / "log", hostile(3, 40)), tmp_path, 16, monkeypatch)
        own = self.context(tmp_path, type=kind, kwargs={"column": "batch"})
        with pytest.raises(DataError, match=rf"runs.json: {kind} is of the whole table"):
            validate_parts(raw, tmp_path, max_bad_share=1.0, expectations=own)
