"""Totals of runs against sums written out run by run, and the same whether runs are one table or come in parts."""

import itertools
import math
import statistics

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from mfcp.data.log.coercion import coerce
from mfcp.data.log.schema import SCHEMA
from mfcp.data.pool.run_totals import RunTotals, TotalledLog, totalled, totals_of
from mfcp.data.pool.times import measure_cells, run_spread

CLUSTERS, TASKS = ["a", "b", "c"], ["w", "x", "y", "z"]
number = st.one_of(st.none(), st.sampled_from([1.0, 2.0, 8.0, 8.0, 0.5, 1e-3, 1e6]))
RUN = st.fixed_dictionaries(
    {
        "task_id": st.sampled_from(TASKS),
        "cluster_id": st.sampled_from(CLUSTERS),
        "status": st.sampled_from(["succeeded", "succeeded", "succeeded", "failed", "oom", "cancelled", "timeout"]),
        "duration_s": number,
        "samples_per_s": number,
        "step_time_s": number,
        "batch_size": st.sampled_from([None, None, 8, 16, 3]),
        "precision": st.sampled_from([None, "fp32", "fp16"]),
        "peak_memory_bytes": st.sampled_from([None, 1, 5_000_000_000]),
        "started_at": st.sampled_from([None, "2026-01-01T00:00:00Z", "2026-03-01T10:00:00Z", "2026-02-01T00:00:00Z"]),
    }
)
TASK = st.fixed_dictionaries({"batch_size": st.sampled_from([None, 4, 32]), "samples": st.sampled_from([None, 1e5])})


def log_of(runs, tasks):
    frames = {
        "tasks": pd.DataFrame([{"task_id": name, "model": "m", **own} for name, own in zip(TASKS, tasks, strict=True)]),
        "clusters": pd.DataFrame({"cluster_id": CLUSTERS}),
        "runs": pd.DataFrame([{"run_id": f"r{k}", **run} for k, run in enumerate(runs)]),
    }
    return {name: coerce(SCHEMA[name], frame).frame for name, frame in frames.items()}


def slow(runs, tasks, sizes):
    """Cells run by run, as the schema's contract says it."""
    stated = dict(zip(TASKS, tasks, strict=True))

    def batch(run):
        return run["batch_size"] or stated[run["task_id"]]["batch_size"]

    def sample(run):
        if run["samples_per_s"]:
            return 1 / run["samples_per_s"]
        return run["step_time_s"] / batch(run) if run["step_time_s"] and batch(run) else None

    sampled = {name for name in TASKS if any(run["task_id"] == name and sample(run) for run in runs)}
    known = [b for run in runs if (b := batch(run))]
    cells = {key: np.full((3, 4), np.nan) for key in ("duration", "per_unit", "square", "peak")}
    cells |= {key: np.zeros((3, 4), int) for key in ("finished", "succeeded", "count", "starved")}
    for i, cluster in enumerate(CLUSTERS):
        for j, task in enumerate(TASKS):
            own = [run for run in runs if run["task_id"] == task and run["cluster_id"] == cluster]
            good = [run for run in own if run["status"] == "succeeded"]
            cells["finished"][i, j] = sum(run["status"] in ("succeeded", "failed", "oom", "timeout") for run in own)
            cells["succeeded"][i, j] = len(good)
            cells["starved"][i, j] = sum(run["status"] == "oom" for run in own)
            if peaks := [run["peak_memory_bytes"] for run in good if run["peak_memory_bytes"]]:
                cells["peak"][i, j] = statistics.fmean(peaks)
            seconds = [run["duration_s"] for run in good if run["duration_s"]]
            unit = [u for run in good if (u := sample(run) if task in sampled else run["step_time_s"])]
            for key, values in (("duration", seconds), ("per_unit", unit)):
                if values:
                    cells[key][i, j] = statistics.fmean(values)
            logs = [math.log(value) for value in seconds or unit]
            cells["count"][i, j] = len(logs)
            cells["square"][i, j] = sum((value - statistics.fmean(logs)) ** 2 for value in logs)
    cells["unit"] = [1.0 if name in sampled else statistics.median(known or [1.0]) for name in TASKS]
    implied = [
        [
            run["duration_s"] / u * sizes[CLUSTERS.index(run["cluster_id"])]
            for run in runs
            if run["task_id"] == name and run["status"] == "succeeded" and run["duration_s"]
            and (u := sample(run) if name in sampled else run["step_time_s"])
        ]
        for name in TASKS
    ]  # fmt: skip
    cells["samples"] = [
        stated[name]["samples"] or (statistics.median(own) if own else np.nan)
        for name, own in zip(TASKS, implied, strict=True)
    ]
    return cells


def compare(log, cells, sizes):
    found = measure_cells(log, np.array(sizes))
    square, count = run_spread(log, np.array(CLUSTERS), np.array(TASKS))
    np.testing.assert_array_equal(found.finished, cells["finished"])
    np.testing.assert_array_equal(found.succeeded, cells["succeeded"])
    np.testing.assert_array_equal(count, cells["count"])
    totals = totals_of(log)
    np.testing.assert_array_equal(totals.starved, cells["starved"])
    np.testing.assert_allclose(totals.peak.mean, cells["peak"], rtol=1e-12)
    np.testing.assert_array_equal(found.unit, cells["unit"])
    for own, expected in (
        (found.duration, cells["duration"]),
        (found.per_unit, cells["per_unit"]),
        (found.samples, cells["samples"]),
    ):
        np.testing.assert_allclose(own, expected, rtol=1e-12)
    np.testing.assert_allclose(square, cells["square"], rtol=1e-9, atol=1e-9)


@settings(max_examples=200)
@given(
    runs=st.lists(RUN, min_size=1, max_size=25),
    tasks=st.tuples(TASK, TASK, TASK, TASK),
    sizes=st.tuples(*3 * [st.sampled_from([1.0, 2.0, 4.0])]),
    cuts=st.lists(st.integers(0, 25), max_size=4),
)
def test_totals_are_sums_over_runs_in_one_table_and_in_parts(runs, tasks, sizes, cuts):
    log, cells = log_of(runs, tasks), slow(runs, tasks, sizes)
    compare(log, cells, sizes)
    ends = [0, *sorted(cuts), len(runs)]
    totals = [RunTotals.of(log, log["runs"].iloc[a:b]) for a, b in itertools.pairwise(ends)]
    whole, added = totals_of(log), totals[0]
    for own in totals[1:]:
        added = added + own
    compare(TotalledLog(log, added), cells, sizes)
    short = totalled(log)
    assert set(short) == {"tasks", "clusters"}
    assert totalled(short).totals is short.totals  # once, however often it is asked for
    compare(short, cells, sizes)
    np.testing.assert_array_equal(added.first, whole.first)
    np.testing.assert_array_equal(added.last, whole.last)
    starts = [sorted(run["started_at"] for run in runs if run["task_id"] == t and run["started_at"]) for t in TASKS]
    assert whole.first.tolist() == [np.datetime64(own[0][:-1], "ns").item() if own else None for own in starts]
    assert whole.last.tolist() == [np.datetime64(own[-1][:-1], "ns").item() if own else None for own in starts]
    for name in ("batch", "whole"):
        np.testing.assert_allclose(getattr(added, name).mean, getattr(whole, name).mean, rtol=1e-12)
