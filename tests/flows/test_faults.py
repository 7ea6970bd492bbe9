"""A platform that is hurt: a few rounds of benchmarks/faults.py, which has the whole suite."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.faults import KINDS, failures, inject, plan, summary

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("prefect")]
KILLS = ("flow", "worker", "server", "simulator", "mlflow")


def test_every_task_is_assigned_once_whatever_is_killed(tmp_path: Path) -> None:
    faults = plan(1000, len(KILLS), {kind: KINDS[kind] for kind in KILLS})
    suite, found = inject(tmp_path, faults, len(KILLS) + 1, {"match": 6.0, "ingest": 20.0})
    print(summary(suite, found))
    assert suite.injected.keys() == set(KILLS)
    assert found["in"] == found["once"] > 10
    assert not failures(suite, found)


def test_a_plan_of_faults_is_its_seed_s_and_has_every_kind() -> None:
    faults = plan(0, 48, KINDS)
    assert plan(0, 48, KINDS) == faults != plan(1, 48, KINDS)
    assert {fault.kind for fault in faults} == set(KINDS)
    assert max(fault.lasts_s for fault in faults if fault.kind == "gone") == 60
