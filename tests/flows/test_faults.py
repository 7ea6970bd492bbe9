"""A platform that is hurt: a few rounds of benchmarks/faults.py, which has the whole suite."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from benchmarks.faults import KINDS, Fault, failures, inject, plan, summary

KILLS = [
    Fault("flow", after_s=0.5, lasts_s=0, draw=0.3),
    Fault("mlflow", after_s=1.0, lasts_s=3, draw=0.5),
    Fault("worker", after_s=1.5, lasts_s=0, draw=0.5),
    Fault("simulator", after_s=0.5, lasts_s=0, draw=0.5),
    Fault("server", after_s=1.0, lasts_s=0, draw=0.5),
]


@pytest.fixture(autouse=True)
def own_environment() -> Iterator[None]:
    """Variables that tell Prefect where this platform's server is do not outlive it."""
    with mock.patch.dict(os.environ):
        yield


@pytest.mark.long
@pytest.mark.xdist_group("prefect")
def test_every_task_is_assigned_once_whatever_is_killed(tmp_path: Path) -> None:
    """Without a training, which takes longer than all else; `python benchmarks/faults.py` has some."""
    every_s = {"match": 5.0, "ingest": 15.0}
    suite, found = inject(tmp_path, KILLS, len(KILLS), every_s, last=("match", "ingest", "monitor"))
    print(summary(suite, found))
    assert suite.injected == {fault.kind: 1 for fault in KILLS}
    assert found["in"] == found["once"] > 10
    assert not failures(suite, found)


def test_a_plan_of_faults_is_its_seed_s_and_has_every_kind() -> None:
    faults = plan(0, 48, KINDS)
    assert plan(0, 48, KINDS) == faults != plan(1, 48, KINDS)
    assert {fault.kind for fault in faults} == set(KINDS)
    assert max(fault.lasts_s for fault in faults if fault.kind == "gone") == 60
