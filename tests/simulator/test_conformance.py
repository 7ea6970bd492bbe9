"""What counts as explained and what as a miss in the benchmark of published numbers."""

import json

import numpy as np
import pandas as pd
import pytest

from benchmarks.published import elasticflow, fgd, gavel, muri
from benchmarks.published.results import Number, Trial, summary, tried
from mfcp.simulator.policies.base import Policy
from mfcp.simulator.simulation import import_policies


def number(policy, *values, **more):
    return Number(policy, "a trace", "a quantity", *values, **more)


@pytest.mark.parametrize(
    ("ours", "found", "inside", "explained"),
    [
        (100.5, None, True, False),
        (102.0, None, False, False),
        (102.0, (100.4,), False, True),
        (102.0, (101.5, 103.0), False, False),
        (102.0, (97.0, 103.0), False, True),
        (102.0, (98.0,), False, False),
    ],
)
def test_a_difference_is_explained_by_an_experiment_alone(ours, found, inside, explained):
    own = tried(number("a", 100.0, ours, 0.01), None if found is None else lambda: Trial("a switch", found))
    assert (own.inside, own.explained, own.missed) == (inside, explained, not inside and not explained)
    verdict = own.cells()[-1]
    assert verdict.startswith("" if inside else "explained" if explained else "MISS")
    assert ("a switch" in verdict) is (found is not None)


def test_an_experiment_is_run_for_numbers_that_are_outside():
    def never():
        raise AssertionError("not needed")

    assert tried(number("a", 100.0, 100.0, 0.01), never).inside
    assert tried(number("a", 100.0, None, None, "no such policy"), never).inside is None


def test_numbers_are_counted():
    numbers = [number("a", 1.0, 1.0, 0.1), number("b", 1.0, 2.0, 0.1), number("c", 1.0, None, None, "not here"),
               number("d", 80.0, 81.0, 0.3, unit="points", trial=Trial("seeds", (79.0, 81.0)))]  # fmt: skip
    assert summary(numbers) == (
        "4 published numbers: 1 inside their bound, 1 outside with an experiment that explains it, 1 missed, 1 skipped"
    )


def test_a_row_for_programs_has_what_the_table_has():
    outside = number("a", 80.0, 81.0, 0.3, unit="points", trial=Trial("seeds", (79.0, 82.0))).record("fgd")
    assert outside == {
        "set": "fgd", "trace": "a trace", "policy": "a", "quantity": "a quantity", "theirs": 80.0, "ours": 81.0,
        "relative": pytest.approx(1 / 80), "bound": 0.3, "unit": "points", "ok": False, "explained": True,
        "said": "seeds: 79.000 to 82.000",
    }  # fmt: skip
    skipped = number("b", 1.0, None, None, "no such policy").record("fgd")
    assert (skipped["ours"], skipped["relative"], skipped["ok"]) == (None, None, False)
    assert skipped["said"] == "no such policy"
    assert number("c", 0.0, 1.0, 0.1, unit="ratio").record("fgd")["relative"] is None


def test_types_of_jobs_are_drawn_from_the_list_as_it_was(tmp_path):
    """By hand: two jobs of each place in the list of four types; A3C went from the second place to the last."""
    names, speed = ["ResNet", "LM (batch size 5)", "Recommendation", "A3C"], [1.0, 2.0, 3.0, 5.0]
    rows = [(device, k, names[k], speed[k] / slower) for k in range(4)
            for slower, device in ((1, "v100"), (2, "p100"), (4, "k80"))]  # fmt: skip
    table = pd.DataFrame(rows, columns=["device", "job_type_index", "job_type", "steps_per_s"])
    table.to_parquet(tmp_path / "throughputs.parquet")
    kind, seconds = np.repeat(np.arange(4), 2), np.arange(1.0, 9.0)
    pd.DataFrame({
        "seed": 0, "job": np.arange(8), "job_type_index": kind, "duration_on_v100_s": seconds,
        "steps": seconds * np.array(speed)[kind], "unit_gap": 1.0,
    }).to_parquet(tmp_path / "jobs.parquet")  # fmt: skip
    for earlier, order in ((False, [0, 1, 2, 3]), (True, [0, 3, 1, 2])):
        jobs, found = gavel.read_jobs(tmp_path, 0, 10.0, earlier=earlier)
        assert found[:, 0].tolist() == [speed[order[k]] for k in kind]
        assert jobs.iterations == pytest.approx(seconds * found[:, 0])
        assert jobs.submit.tolist() == [10.0 * k for k in range(8)]


def test_every_policy_of_gavel_is_one_of_ours():
    import_policies()
    built = {policy: Policy.build(policy, **gavel.AS_PUBLISHED.get(policy, {})) for policy in gavel.POLICIES.values()}
    assert all(policy.clock == "rounds" for policy in built.values())
    assert built["in_turn"].published


CONSTANTS = {"iteration_time_factor": 1.0, "tiresias": {"gpu_seconds_limits": [1.0]}, "tuning_ratio": 1.0}


@pytest.mark.parametrize("folder", [muri, gavel, fgd, elasticflow])
def test_what_we_have_nothing_for_is_told_and_stops_nothing(folder, tmp_path):
    """Another policy, another metric, a trace whose file is missing."""
    known = {muri: ("srtf", "mean_jct_s"), gavel: ("allox", "mean_jct_h"), fgd: ("fgd", "gpu_allocation_percent"),
             elasticflow: ("edf", "makespan_s")}[folder]  # fmt: skip
    cases = [("of next year", known[1]), (known[0], "joules")]
    if folder is not gavel:  # whose jobs are one file
        cases.append(known)
    results = [
        {"policy": policy, "trace": "trace9", "workload": "w9", "metric": metric, "value": 1.0, "seed": 0, "seeds": [1],
         "rate_jobs_per_h": 0.4, "nodes": 1, "slot_s": 60.0}
        for policy, metric in cases
    ]  # fmt: skip
    (tmp_path / "expected.json").write_text(json.dumps({"constants": CONSTANTS, "results": results}))
    (tmp_path / "fig10_jobs.csv").write_text("policy,job,end_time_s\n")
    found = list(folder.numbers(tmp_path, 4.8))
    assert len(found) == len(cases)
    for number in found:
        assert number.inside is None
        assert number.skipped
