"""The study end to end on a toy pool: the same results however it is run, resumed, or killed."""

import json
import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pandas as pd
import pytest
import yaml
from running import alive, until
from study_plans import PARAMS, STUDY
from toy import toy_study

from mfcp.cli import main
from mfcp.data.pool.splits import describe
from mfcp.errors import SettingsError
from mfcp.files import replacing_folder, write_json
from mfcp.paper.jobs import plan_jobs
from mfcp.paper.page import publish
from mfcp.paper.running import alone, processes, run_jobs
from mfcp.paper.study_file import StudyPlan
from mfcp.settings import Settings

SOURCE = {"kind": "emulator"}

pytestmark = pytest.mark.xdist_group("paper")  # one reference for all


def params(**methods):
    content = yaml.safe_load(PARAMS.read_text())
    content["ingest"]["source"] = SOURCE
    content["featurize"] |= {"encoder": "none"}
    content["matching"] |= {"tasks": 3, "validation_rounds": 20}
    content["pretrain"] = {**content["pretrain"], "training": {**content["pretrain"]["training"], "epochs": 10}}
    content["evaluate"] |= {"rounds": 12, "bootstrap": 100, "margins": [-0.02, 0.0, 0.02]}
    rows = {key: {"kind": "two_stage", "loss": loss} for key, loss in (("tsm", "time"), ("tsm_log", "log_time"))}
    return content | {"methods": rows | methods}


def prepared(out, content, study_file=STUDY):
    """A plan, its jobs, and the first of them done: the toy study stands for what the log would give."""
    plan = StudyPlan.load(study_file, Settings(content))
    jobs = plan_jobs(plan, {"default": SOURCE}, tuple(plan.study.experiments), ("A", "B"))
    for job, seeds in zip([job for job in jobs if job.kind == "study"], ((0, 1), plan.study.choice.seeds), strict=True):
        study = toy_study(seeds=seeds)
        with replacing_folder(job.folder(out)) as folder:
            study.save(folder)
            info = {"pool": describe(study.pool), "settings": {"A": [], "B": []}, "features": 3, "cpu_seconds": 0.0}
            write_json(folder / "info.json", info)
    return plan, jobs


def in_this_process():
    return ThreadPoolExecutor(1), 1


def tables(jobs, out):
    """Bytes of every table that jobs have left."""
    return {
        f"{job.name}/{path.name}": path.read_bytes()
        for job in jobs
        for path in sorted(job.folder(out).iterdir())
        if path.suffix in (".parquet", ".safetensors")
    }


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    out = tmp_path_factory.mktemp("reference")
    _, jobs = prepared(out, params())
    assert run_jobs(jobs, out, in_this_process) == {}
    return tables(jobs, out)


def test_two_workers_find_what_one_finds_to_the_byte(reference, tmp_path):
    _, jobs = prepared(tmp_path, params())
    assert run_jobs(jobs, tmp_path, lambda: processes(2)) == {}
    assert tables(jobs, tmp_path) == reference


def test_a_run_again_does_only_what_is_missing(reference, tmp_path, capsys):
    _, jobs = prepared(tmp_path, params())
    run_jobs(jobs, tmp_path, in_this_process)
    before = {job.name: (job.folder(tmp_path) / "info.json").stat().st_mtime_ns for job in jobs}
    lost = next(job for job in jobs if job.name == "default-comparison-B")
    shutil.rmtree(lost.folder(tmp_path))
    assert run_jobs(jobs, tmp_path, in_this_process) == {}
    after = {job.name: (job.folder(tmp_path) / "info.json").stat().st_mtime_ns for job in jobs}
    assert [name for name in after if after[name] != before[name]] == [lost.name]
    assert tables(jobs, tmp_path) == reference


def test_killed_in_the_middle_and_resumed(reference, tmp_path):
    """SIGKILL leaves whole folders alone, no process behind, and the next run goes on from there."""
    out = tmp_path / "out"
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params()))
    _, jobs = prepared(out, params())
    command = ["paper", "--out", str(out), "--study", str(STUDY), "--workers", "1"]
    program = subprocess.Popen(
        [sys.executable, "-c", f"from mfcp.cli import main\nif __name__ == '__main__': main({command!r})"],
        cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    until(lambda: jobs[2].done(out), "the first job is done", 120)
    workers = [int(pid) for pid in Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text().split()]
    assert workers
    program.send_signal(signal.SIGKILL)
    program.wait()
    until(lambda: not any(alive(pid) for pid in workers), "its workers end, too")
    assert not all(job.done(out) for job in jobs)
    (out / "jobs" / ".half-written").mkdir()
    with alone(out):
        assert not (out / "jobs" / ".half-written").exists()
        assert run_jobs(jobs, out, in_this_process) == {}
    assert tables(jobs, out) == reference


def test_two_runs_do_not_share_a_folder(tmp_path):
    with alone(tmp_path), pytest.raises(SettingsError, match="another run of mfcp writes there"), alone(tmp_path):
        pass


def test_a_failing_job_is_named_and_the_others_go_on(tmp_path, monkeypatch, capsys):
    """Rounds of 60 tasks need more validation tasks than there are: the command says so and exits with 1."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:////dev/null/none.db")
    monkeypatch.setattr("mfcp.paper.running.processes", lambda workers: in_this_process())
    content = yaml.safe_load(STUDY.read_text())
    content["experiments"]["tasks"]["sweep"] = {"tasks": [2, 60]}
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(content))
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params()))
    out = tmp_path / "out"
    prepared(out, params(), tmp_path / "study.yaml")
    with pytest.raises(SystemExit) as end:
        main(["paper", "--out", str(out), "--study", "study.yaml"])
    assert end.value.code == 1
    printed = capsys.readouterr()
    assert "2 of 12 jobs failed" in printed.err
    assert "default-tasks-A-60: setting A" in printed.err
    assert "for rounds of 60" in printed.err
    assert "not in MLflow" in printed.err
    results = json.loads((out / "paper.json").read_text())
    (entry,) = results["experiments"]["comparison"]["entries"]
    assert set(entry["chosen_on"]) == {"tsm", "bayes"}
    assert entry["best"] == {"ours": "bayes", "baselines": "tsm"}
    assert 0 < entry["errors"]["held out"]["tsm"]["log_time_own"] < entry["errors"]["held out"]["tsm"]["log_time_rms"]
    assert [entry["value"] for entry in results["experiments"]["tasks"]["entries"]] == [2]
    assert {"comparison-default.png", "comparison-default-ratios.png", "tasks-default.png", "tables.md"} <= set(
        os.listdir(out)
    )
    publish(out, tmp_path / "docs")
    kept = pd.read_parquet(tmp_path / "docs" / "results" / "comparison.parquet")
    shown = entry["tables"]["pooled"]["bayes"]["penalised_excess"]
    row = kept.query("scope == 'pooled' and method == 'bayes'").set_index("metric")
    assert row.loc["penalised_excess", "mean"] == pytest.approx(shown["mean"], rel=1e-6)
    assert row.loc["penalised_excess", "ci_high"] == pytest.approx(shown["ci_high"], rel=1e-6)
    assert (
        "| best | 1.00 (`tsm`) |" in (text := (tmp_path / "docs" / "results.md").read_text()) or "(`bayes`) |" in text
    )
    assert "ours over the best baseline is" in text
    assert "| everything | once | a test |" in (tmp_path / "docs" / "results" / "tables.md").read_text()
    assert {path.name for path in (tmp_path / "docs" / "results").glob("*.png")} == {"errors.png", "ratios.png"}


class Dying(ThreadPoolExecutor):
    """An executor whose process is killed by one job, as the kernel does when memory runs out."""

    def submit(self, function, job, out):
        def broken():
            raise BrokenProcessPool("a process in the process pool was terminated abruptly")

        return super().submit(broken) if job.name == "default-pretrain-A" else super().submit(function, job, out)


def test_a_dead_worker_costs_its_job_alone(tmp_path):
    _, jobs = prepared(tmp_path, params())
    failed = run_jobs(jobs, tmp_path, lambda: (Dying(1), 1))
    assert "died" in failed["default-pretrain-A"]
    assert failed["default-comparison-A"] == "needs a job that failed"
    assert all(job.done(tmp_path) for job in jobs if "-B" in job.name)
