"""A cluster on which jobs only take time, against a slow reference with a list of slots."""

from __future__ import annotations

import tempfile
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfcp.executors.base import Batch, JobLimits, RefusedError
from mfcp.executors.simulated import Simulated

jobs = st.lists(st.sampled_from([0.0, 1.0, 1.0, 2.5, 7.0]), min_size=1, max_size=8)


@settings(max_examples=40)
@given(jobs, st.integers(1, 3), st.sampled_from([2.0, 100.0]))
def test_first_come_first_served(seconds, slots, limit):
    """Second by second: who is first in the queue takes a slot as soon as one is free."""
    with tempfile.TemporaryDirectory() as folder, mock.patch("time.time") as clock:
        clock.return_value = 1000.0
        cluster = Simulated(folder=folder, slots=slots)
        batch = Batch("mfcp-1-1", [f"take {s}" for s in seconds], JobLimits(limit))
        cluster.release([cluster.submit(batch)])
        step, running, waiting, ends = 0.25, [], [min(s, limit) for s in seconds], [None] * len(seconds)
        queue = list(range(len(seconds)))
        for tick in range(400):
            now = tick * step
            for job in [job for job in running if ends[job] <= now]:
                running.remove(job)
            while queue and (len(running) < slots):
                job = queue.pop(0)
                ends[job] = now + waiting[job]
                if waiting[job]:
                    running.append(job)
            clock.return_value = 1000.0 + now
            seen = cluster.watch(batch.keys)
            for job, key in enumerate(batch.keys):
                over, known = ends[job] is not None and ends[job] <= now, seen[key]
                assert (known.stage == "over") == over
                assert (known.stage == "running") == (job in running)
        for job, key in enumerate(batch.keys):
            assert seen[key].end["wall_s"] == pytest.approx(min(seconds[job], limit))
            assert seen[key].end["ended_by"] == ("time" if seconds[job] > limit else "")


@pytest.mark.parametrize("command", ["", "take", "take x", "take -1", "take 1 lost", "sleep 3", "take 1 failed 2"])
def test_it_runs_nothing_else(tmp_path, command):
    cluster = Simulated(folder=str(tmp_path))
    with pytest.raises(RefusedError, match="runs `take SECONDS"):
        cluster.submit(Batch("mfcp-1-1", [command], JobLimits(1.0)))


def test_cancelled_jobs_give_their_place_to_others(tmp_path):
    with mock.patch("time.time") as clock:
        clock.return_value = 1000.0
        cluster = Simulated(folder=str(tmp_path))
        batch = Batch("mfcp-1-1", ["take 50", "take 50", "take 3"], JobLimits(90.0))
        cluster.release([cluster.submit(batch)])
        clock.return_value = 1010.0
        assert cluster.cancel({"mfcp-1-1.0": (), "mfcp-1-1.1": ()}) == ["mfcp-1-1.1"]
        clock.return_value = 1013.0
        seen = cluster.watch(batch.keys)
        assert [seen[key].stage for key in batch.keys] == ["over"] * 3
        assert seen["mfcp-1-1.0"].end == {"at": 1010.0, "wall_s": 10.0, "ended_by": "stopped"}
        assert cluster.collect(batch.keys, 0.0)["mfcp-1-1.0"].status == "cancelled"
