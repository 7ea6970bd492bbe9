"""Processes of this machine as a cluster."""

from __future__ import annotations

import time

import pytest
from running import until

from mfcp.executors.base import Batch, JobLimits
from mfcp.executors.local import Local


@pytest.fixture
def local(tmp_path):
    return Local(folder=str(tmp_path / "spool"), slots=2)


def stages(local, batch):
    return [local.watch(batch.keys)[key].stage for key in batch.keys]


def test_jobs_wait_for_release_and_for_a_slot(local, tmp_path):
    batch = Batch("mfcp-1-1", [f"echo {n} >> {tmp_path}/ledger; sleep 0.5" for n in range(4)], JobLimits(20.0))
    job = local.submit(batch)
    assert stages(local, batch) == ["held"] * 4
    time.sleep(0.2)
    assert not (tmp_path / "ledger").exists()
    local.release([job])

    def most_at_once():
        seen = local.watch(batch.keys)
        running = [key for key, one in seen.items() if one.begin and not one.end]
        assert len(running) <= 2
        return all(one.end for one in seen.values())

    until(most_at_once, 20)
    assert sorted((tmp_path / "ledger").read_text().split()) == ["0", "1", "2", "3"]
    assert stages(local, batch) == ["over"] * 4
    assert local.health().up
    assert local.collect(batch.keys, 0.0) == {}
    local.forget(0.0)
    assert [one.stage for one in local.watch(batch.keys).values()] == ["unknown"] * 4


def test_cancelled_jobs_do_not_start_and_those_that_run_end(local):
    batch = Batch("mfcp-1-2", ["sleep 66"] * 3, JobLimits(90.0))
    local.release([local.submit(batch)])
    until(lambda: sum(one.begin is not None for one in local.watch(batch.keys).values()) == 2, "what was asked for", 10)
    assert local.cancel(dict.fromkeys(batch.keys, ())) == ["mfcp-1-2.2"]
    until(lambda: [one.stage for one in local.watch(batch.keys).values()] == ["over"] * 3, "what was asked for", 10)
    seen = local.watch(batch.keys)
    assert [seen[key].end and seen[key].end["ended_by"] for key in batch.keys] == ["stopped", "stopped", None]
