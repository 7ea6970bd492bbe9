"""What is common to executors."""

from __future__ import annotations

import pytest

from mfcp.errors import SettingsError
from mfcp.executors.base import Batch, Executor, JobLimits, Watched, import_executors


def test_the_family_has_three_members():
    import_executors()
    assert set(Executor.members) >= {"simulated", "local", "slurm"}
    with pytest.raises(SettingsError, match="known: local, simulated, slurm"):
        Executor.build("kubernetes")
    with pytest.raises(SettingsError, match="folder"):
        Executor.parse({"kind": "slurm", "folder": "relative"})


def test_keys_are_names_and_places():
    assert Batch("b", ["x", "y"], JobLimits(1.0)).keys == ["b.0", "b.1"]


def test_those_that_live_count_above_those_that_are_over():
    watched = Watched()
    assert watched.seen(None).stage == "unknown"
    watched.add("3", "over")
    assert (watched.seen(None).stage, watched.seen(None).jobs) == ("over", ("3",))
    watched.add("7", "held")
    assert (watched.seen(None).stage, watched.seen(None).jobs) == ("held", ("7",))
    watched.add("9", "running")
    assert (watched.seen({"begin": {}}).stage, watched.seen(None).jobs) == ("running", ("7", "9"))
