"""Ends of jobs as Slurm tells them."""

from __future__ import annotations

import pytest

from mfcp.data.sources.slurm_states import amount, status_of, trackable


@pytest.mark.parametrize(
    ("state", "exit_code", "peak", "memory", "status"),
    [
        ("COMPLETED", "0:0", None, None, "succeeded"),
        ("FAILED", "1:0", None, None, "failed"),
        ("FAILED", "0:9", 2.4e9, 2.1e9, "oom"),
        ("FAILED", "0:9", 1.0e9, 2.1e9, "failed"),
        ("FAILED", "0:9", None, 2.1e9, "failed"),
        ("FAILED", "1:0", 2.4e9, 2.1e9, "failed"),
        ("OUT_OF_MEMORY", "0:125", None, None, "oom"),
        ("CANCELLED by 1000", "0:0", None, None, "cancelled"),
        ("CANCELLED+", "0:15", None, None, "cancelled"),
        ("TIMEOUT", "0:0", None, None, "timeout"),
        ("NODE_FAIL", "1:0", None, None, "node_fail"),
        ("RUNNING", "0:0", None, None, None),
        ("REQUEUED", "0:0", None, None, None),
        ("", "", None, None, None),
    ],
)
def test_states_are_statuses(state, exit_code, peak, memory, status):
    assert status_of(state, exit_code, peak, memory) == status


def test_amounts_and_resources_are_read():
    assert [amount(text) for text in ("748848K", "2000M", "1.5G", "12", "4Gn", "", "x")] == [
        748848 * 2**10, 2000 * 2**20, 1.5 * 2**30, 12, 4 * 2**30, None, None,
    ]  # fmt: skip
    assert trackable("billing=1,cpu=1,gres/gpu=2,mem=2000M") == {
        "billing": "1", "cpu": "1", "gres/gpu": "2", "mem": "2000M",
    }  # fmt: skip
    assert trackable("") == {}
