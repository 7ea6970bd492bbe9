"""Where a task runs next: tried again, compared on a second cluster, or done."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mfcp.platform.running.following import MOST, is_compared, next_cluster
from mfcp.platform.running.job_settings import JobSettings

CLUSTERS = ("x", "y", "z")


def attempts(*ends, begun=True):
    """Attempts of one task by (cluster, status), in order."""
    return [
        {"id": n, "task_id": "t", "number": n, "cluster_id": cluster, "status": status, "cancelled": False,
         "begun_at": 1.0 if begun and status != "lost" else None}
        for n, (cluster, status) in enumerate(ends, start=1)
    ]  # fmt: skip


def after(ends, *, away=(), busy=None, clusters=CLUSTERS, **settings):
    """What follows the last of these."""
    rows = attempts(*ends)
    before = [*rows[:-1], {**rows[-1], "status": None}]  # as the table has it before this one is finished
    told = JobSettings(**settings)
    return next_cluster(rows[-1], rows[-1]["status"], before, told, clusters, away, busy or {})


@pytest.mark.parametrize(
    ("ends", "told", "expected"),
    [
        ([("x", "failed")], {}, "y"),
        ([("x", "failed")], {"busy": {"y": 5.0}}, "z"),
        ([("x", "failed")], {"away": ("y",)}, "z"),
        ([("x", "failed")], {"away": ("y", "z")}, "x"),
        ([("x", "failed"), ("y", "oom")], {}, "z"),
        ([("x", "failed"), ("y", "oom"), ("z", "timeout")], {}, None),
        ([("x", "lost"), ("y", "failed"), ("z", "failed")], {}, "x"),  # one that never began is free
        ([("x", "failed")], {"retry": {"after": ("oom",)}}, None),
        ([("x", "succeeded")], {}, None),
        ([("x", "succeeded")], {"compare": 1.0}, "y"),
        ([("x", "succeeded")], {"compare": 1.0, "away": ("y",)}, "z"),
        ([("x", "succeeded")], {"compare": 1.0, "away": ("y", "z")}, None),  # nobody waits for a comparison
        ([("x", "succeeded")], {"compare": 1.0, "clusters": ("x",)}, None),
        ([("x", "succeeded"), ("y", "succeeded")], {"compare": 1.0}, None),
        ([("x", "succeeded"), ("y", "failed")], {"compare": 1.0}, None),
        ([("x", "succeeded"), ("y", "lost")], {"compare": 1.0}, "z"),
        ([("x", "failed"), ("y", "succeeded")], {"compare": 1.0}, "z"),
    ],
    ids=str,
)
def test_where_a_task_runs_next(ends, told, expected):
    assert after(ends, **told) == expected


def test_what_is_cancelled_or_was_tried_too_often_does_not():
    (row,) = attempts(("x", "failed"))
    settings = JobSettings(retry={"times": 100})
    assert next_cluster({**row, "cancelled": True}, "failed", [row], settings, CLUSTERS, (), {}) is None
    many = attempts(*[("x", "lost")] * MOST)
    assert next_cluster(many[-1], "lost", many, settings, CLUSTERS, (), {}) is None
    assert next_cluster(many[-2], "lost", many[:-1], settings, CLUSTERS, (), {}) == "y"


@given(st.sets(st.text(min_size=1, max_size=8), min_size=1), st.floats(0, 1), st.floats(0, 1))
def test_a_larger_share_has_the_tasks_of_a_smaller_one(names, one, other):
    less, more = sorted((one, other))
    assert {n for n in names if is_compared(n, less)} <= {n for n in names if is_compared(n, more)}
    assert not any(is_compared(n, 0.0) for n in names)
    assert all(is_compared(n, 1.0) for n in names)


def test_the_share_is_what_was_asked_for():
    share = sum(is_compared(f"task-{n}", 0.3) for n in range(10_000)) / 10_000
    assert share == pytest.approx(0.3, abs=0.02)


def test_memory_grows_only_after_too_little():
    settings = JobSettings(retry={"memory": 1.5})
    limits = {"seconds": 9.0, "memory_bytes": 1001, "cpus": 1, "gpus": 0}
    assert settings.limits_after("oom", limits) == {**limits, "memory_bytes": 1502}
    assert settings.limits_after("failed", limits) == limits
    assert settings.limits_after("oom", {**limits, "memory_bytes": None})["memory_bytes"] is None
    assert JobSettings().limits_after("oom", limits) == limits
