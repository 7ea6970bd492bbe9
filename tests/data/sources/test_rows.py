"""Rows of other tools as tables."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from mfcp.data.sources.rows import log_of, moment
from mfcp.errors import DataError

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("1782907200", NOON),
        ("1782907200.0", NOON),
        ("2026-07-01T12:00:00", datetime(2026, 7, 1, 10, tzinfo=UTC)),
        ("2026-07-01 12:00:00+00:00", NOON),
        ("Unknown", None),
        ("", None),
        ("0", None),
        ("1e300", None),
        ("nan", None),
    ],
)
def test_moments_are_read(text, when):
    assert moment(text, ZoneInfo("Europe/Paris")) == when


def test_attempts_count_in_order_of_their_start():
    runs = [
        {"run_id": str(n), "task_id": "t", "cluster_id": cluster, "status": "failed", "started_at": f"2026-01-0{day}"}
        for n, (cluster, day) in enumerate([("a", 3), ("a", 1), ("b", 2)])
    ]
    tables = log_of(Path("x"), runs, {"t": {"model": "vit"}}, {"b": {"accelerator": "A100"}})
    assert dict(zip(tables["runs"]["run_id"], tables["runs"]["attempt"], strict=True)) == {"1": 1, "2": 1, "0": 2}
    assert list(tables["tasks"]["model"]) == ["vit"]
    assert dict(zip(tables["clusters"]["cluster_id"], tables["clusters"]["accelerator"].isna(), strict=True)) == {
        "a": True, "b": False,
    }  # fmt: skip


def test_nothing_and_the_same_run_twice_are_refused():
    with pytest.raises(DataError, match="x: no run in it"):
        log_of(Path("x"), [])
    run = {"run_id": "1", "task_id": "t", "cluster_id": "a", "status": "failed"}
    with pytest.raises(DataError, match="run '1' occurs 2 times"):
        log_of(Path("x"), [run, run])
