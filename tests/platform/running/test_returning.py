"""Attempts as rows of table runs."""

from __future__ import annotations

import pytest

from mfcp.platform.running.returning import runs_of

ROW = {
    "id": 1, "task_id": "t", "cluster_id": "c", "number": 1, "batch": "mfcp-1-1", "place": 0, "status": "succeeded",
    "why": "", "begun_at": 1.8e9, "limits": {"gpus": 0},
    "receipt": {"wall_s": 3.5, "end": {"report": {"step_time_s": 0.25, "batch_size": 8}}},
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


def test_its_memory_is_what_the_task_says_else_what_its_supervisor_saw():
    def memory(gpus, **end):
        row = {**ROW, "limits": {"gpus": gpus}, "receipt": {"wall_s": 1.0, "end": end}}
        (told,) = runs_of([row], [row])["peak_memory_bytes"].astype(float).tolist()
        return None if told != told else told

    assert memory(0, peak_bytes=5) == 5
    assert memory(0, peak_bytes=5, report={"peak_memory_bytes": 7}) == 7
    assert memory(1, peak_bytes=5) is None  # it is of the host, and the limit is the GPU's
    assert memory(1, peak_bytes=5, report={"peak_memory_bytes": 7}) == 7
    assert memory(0, peak_bytes="many") is None
    assert memory(0) is None


def test_attempts_count_by_cluster():
    rows = [{**ROW, "id": n, "place": n, "cluster_id": cluster} for n, cluster in enumerate("aba")]
    assert list(runs_of(rows[1:], rows)["attempt"]) == [1, 2]
