"""Plans as scripts and manifests, and the scripts run."""

from __future__ import annotations

import subprocess

import pytest
import yaml

from mfcp.executors.base import JobLimits
from mfcp.executors.slurm import Slurm
from mfcp.platform.running.exporting import PlannedTask, kubernetes_jobs, sbatch_scripts

LIMITS = JobLimits(90.0, 2 << 30, cpus=2, gpus=1)
PLAN = [
    PlannedTask("t 1\nrm -rf x", "alpha", "echo 'one  $HOME'", LIMITS),
    PlannedTask("t2", "beta", "echo two", LIMITS),
    PlannedTask("t3", "alpha", "echo three", LIMITS),
    PlannedTask("t4", "alpha", "echo four", JobLimits(10.0)),
]


def test_a_script_runs_each_task_of_its_cluster(tmp_path):
    scripts = sbatch_scripts(PLAN, "round-7")
    assert sorted(scripts) == ["alpha-0.sh", "alpha-1.sh", "beta-0.sh"]
    text = scripts["alpha-0.sh"]
    for option in ("--array=0-1", "--time=2", "--mem=2048M", "--gres=gpu:1", "--cpus-per-task=2", "--job-name=round-7"):
        assert f"#SBATCH {option}\n" in text
    said = []
    for place in ("0", "1"):
        variables = {"SLURM_ARRAY_TASK_ID": place, "HOME": "/h"}
        done = subprocess.run(["sh"], input=text, env=variables, text=True, capture_output=True, check=True)
        said.append(done.stdout)
    assert said == ["one  $HOME\n", "three\n"]


def test_scripts_ask_for_what_the_platform_would_and_are_no_larger_than_slurm_takes(tmp_path):
    plan = [PlannedTask(f"t{k}", "alpha", f"echo {k}", LIMITS) for k in range(5)]
    own = Slurm(folder="/x", cluster="a", gpu="gpu:a100", options=("--partition=gpu", "--comment=for a  task"))
    scripts = sbatch_scripts(plan, "r", {"alpha": own, "beta": Slurm(folder="/y", options=("--qos=low",))}, array=2)
    assert sorted(scripts) == ["alpha-0.sh", "alpha-1.sh", "alpha-2.sh"]
    for text in scripts.values():
        for option in ("--clusters=a", "--partition=gpu", "'--comment=for a  task'", "--gres=gpu:a100:1"):
            assert f"#SBATCH {option}\n" in text
        assert "--qos" not in text
    assert [text.count("--array=0-1\n") for text in scripts.values()] == [1, 1, 0]
    done = subprocess.run(
        ["sh"],
        input=scripts["alpha-2.sh"],
        env={"SLURM_ARRAY_TASK_ID": "0"},
        text=True,
        capture_output=True,
        check=True,
    )
    assert done.stdout == "4\n"


@pytest.mark.slurm
def test_slurm_takes_the_scripts(slurm, tmp_path):
    own = {"alpha": Slurm(folder="/x", options=("--comment=for a  task",))}
    plan = [PlannedTask("t", "alpha", "true", JobLimits(30.0, 100 << 20))]
    for name, text in sbatch_scripts(plan, "r", own).items():
        (tmp_path / name).write_text(text)
        told = slurm.run("alpha", "sbatch", "--parsable", "--output=/dev/null", str(tmp_path / name))
        assert (job := told.stdout.strip()).isdigit()
        assert "Comment=for a  task" in slurm.run("alpha", "scontrol", "show", "job", job).stdout


def test_jobs_wait_for_the_queue_of_their_cluster():
    jobs = kubernetes_jobs(PLAN, "registry/image:1")
    assert len({job["metadata"]["name"] for job in jobs}) == len(PLAN)
    first = jobs[0]
    assert first["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "alpha"}
    assert first["metadata"]["annotations"]["mfcp/task"] == "t 1\nrm -rf x"
    spec = first["spec"]
    assert (spec["suspend"], spec["backoffLimit"], spec["activeDeadlineSeconds"]) == (True, 0, 90)
    (container,) = spec["template"]["spec"]["containers"]
    assert container["command"] == ["/bin/sh", "-c", "echo 'one  $HOME'"]
    assert container["resources"]["limits"] == {"cpu": "2", "memory": str(2 << 30), "nvidia.com/gpu": "1"}
    assert kubernetes_jobs(PLAN[3:], "i")[0]["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] == {
        "cpu": "1"
    }


def test_the_manifests_keep_kubernetes_schema():
    """Kubernetes' own schemas, where the package that brings them is installed."""
    checker = pytest.importorskip("kubernetes_validate")
    for job in yaml.safe_load_all(yaml.safe_dump_all(kubernetes_jobs(PLAN, "image"))):
        checker.validate(job, "1.31", strict=True)
