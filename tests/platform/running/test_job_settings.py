"""Commands of tasks, and what a section of params.yaml may say."""

from __future__ import annotations

import shlex

import pytest
from pydantic import ValidationError

from mfcp.errors import SettingsError
from mfcp.executors.base import JobLimits
from mfcp.platform.running.job_settings import ClusterSettings, JobSettings, command_of

LIMITS = JobLimits(60.0, cpus=2)


def test_values_reach_the_command_as_one_word_each():
    row = {"task_id": "t", "model": "x; rm -rf ~ $(id) '", "batch_size": 8}
    command = command_of("train --model {model} --batch {batch_size} --cpus {cpus} ${{HOME}}", row, "a", 1, LIMITS)
    assert shlex.split(command) == ["train", "--model", row["model"], "--batch", "8", "--cpus", "2", "${HOME}"]


def test_a_task_without_what_the_command_needs_is_refused():
    with pytest.raises(SettingsError, match="needs batch_size, model of the task"):
        command_of("train {model} {batch_size}", {"task_id": "t", "model": None}, "a", 1, LIMITS)
    with pytest.raises(SettingsError, match=r"platform\.run\.command: there is none"):
        command_of(" ", {"task_id": "t"}, "a", 1, LIMITS)


@pytest.mark.parametrize("command", ["{modell}", "{model.__class__}", "{0}", "echo ${HOME}", "{model", "{}"])
def test_a_command_names_only_what_it_gets(command):
    with pytest.raises(ValidationError, match="written twice"):
        JobSettings(command=command)


def test_clusters_are_checked():
    told = ClusterSettings(executor={"kind": "local", "folder": "/x"}, figures={"accelerator": "cpu"})
    assert told.executor.name == "local"
    with pytest.raises(ValidationError, match="no columns of table clusters"):
        ClusterSettings(executor={"kind": "local", "folder": "/x"}, figures={"acelerator": "cpu"})
    with pytest.raises(SettingsError, match="unknown executor kind 'slrum'; known: local, simulated, slurm"):
        ClusterSettings(executor={"kind": "slrum"})
