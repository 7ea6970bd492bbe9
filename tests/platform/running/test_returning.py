"""Attempts as rows of table runs."""

from __future__ import annotations

import pytest

from mfcp.platform.running.returning import runs_of

ROW = {
    "id": 1, "task_id": "t", "cluster_id": "c", "number": 1, "batch": "mfcp-1-1", "place": 0, "status": "succeeded",
    "why": "", "begun_at": 1.8e9, "receipt": {"wall_s": 3.5, "end": {"report": {"step_time_s": 0.25, "batch_size": 8}}},
}  # fmt: skip


def test_a_run_tells_what_its_task_reported():
    (run,) = runs_of([ROW], [ROW]).to_dict("records")
    assert (run["run_id"], run["task_id"], run["cluster_id"], run["attempt"]) == ("mfcp-1-1.0", "t", "c", 1)
    assert (run["duration_s"], run["step_time_s"], run["batch_size"], run["status"]) == (3.5, 0.25, 8, "succeeded")
    assert str(run["started_at"]).startswith("2027-01-15")


@pytest.mark.parametrize("value", ["0.25", True, -1.0, 0, 1e300, float("nan"), None, [1], 10**400])
def test_what_is_no_figure_is_left_out(value):
    row = {**ROW, "receipt": {"wall_s": None, "end": {"report": {"step_time_s": value}}}}
    (run,) = runs_of([row], [row]).to_dict("records")
    assert run["step_time_s"] != run["step_time_s"]
    assert run["duration_s"] != run["duration_s"]


def test_attempts_count_by_cluster():
    rows = [{**ROW, "id": n, "place": n, "cluster_id": cluster} for n, cluster in enumerate("aba")]
    assert list(runs_of(rows[1:], rows)["attempt"]) == [1, 2]
