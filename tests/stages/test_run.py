"""The stages of dvc.yaml one after another on a small emulated platform, twice: same results to the byte."""

import hashlib
import json
from pathlib import Path

import pytest
import yaml

from mfcp import threads
from mfcp.errors import DataError, SettingsError
from mfcp.settings import Settings

PARAMS = Path(__file__).parents[2] / "params.yaml"


def small(**changes):
    """The shipped params.yaml with a small platform, few steps and two seeds."""
    content = yaml.safe_load(PARAMS.read_text())
    content["ingest"]["source"] = {"kind": "emulator", "tasks": 48, "families": FAMILIES, "runs": [8, 12]}
    content["pool"]["min_tasks_per_cluster"] = 10
    content["featurize"] |= {"settings": 2, "seeds": [0, 1], "encoder": "none"}
    content["matching"] |= {"tasks": 3, "validation_rounds": 20}
    content["pretrain"]["training"] |= {"epochs": 20}
    content["finetune"] |= {"steps": 4, "rounds": 4, "check_every": 2}
    content["evaluate"] |= {"rounds": 10, "bootstrap": 100}
    return content | changes


FAMILIES = ["deit", "poolformer", "albert", "distilbert", "electra", "gpt_neo"]  # the quickest to capture


def run_all(content):
    from mfcp.stages import evaluate, featurize, finetune, ingest, pretrain, report, validate

    settings = Settings(content)
    for stage in (ingest, validate, featurize, pretrain):
        stage.run(settings)
    for label in settings.methods:
        finetune.run(settings, label)
    evaluate.run(settings)
    report.run(settings)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    return tmp_path


def digests(folder):
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((folder / "data").rglob("*"))
        if path.is_file()
    }


def an_error_in_one_setting_ends_the_others(folder, content):
    from mfcp.stages import finetune

    before = digests(folder)
    endless = content | {"finetune": content["finetune"] | {"steps": 30_000}}  # minutes, were the other waited for
    damaged = folder / "data/models/pretrain/B.safetensors"
    whole = damaged.read_bytes()
    damaged.unlink()
    with pytest.raises(DataError, match=r"B\.safetensors"):
        finetune.run(Settings(endless), "mfcp_ad")
    damaged.write_bytes(whole)
    assert digests(folder) == before


def test_the_pipeline_end_to_end_twice(folder, capsys):
    content = small()
    run_all(content)
    first = digests(folder)
    summary = json.loads((folder / "data/reports/metrics.json").read_text())
    assert set(summary) == {"A", "B", "pooled"}
    assert set(summary["A"]) == set(content["methods"])
    assert summary["A"]["mfcp_ad"]["penalised_excess"]["n"] == 2
    assert "| tsm_log_bayes |" in (folder / "data/reports/comparison.md").read_text()
    assert "report.html" in capsys.readouterr().out
    for name in (
        "metrics.png",
        "ratios.png",
        "training.png",
        "comparison.md",
        "report.html",
        "rounds.parquet",
        "pool.json",
    ):
        assert f"data/reports/{name}" in first
    with pytest.MonkeyPatch.context() as patch:  # again, in processes, which small logs are not worth
        patch.setattr(threads, "_allowed", True)
        for module in ("emulator.zoo", "study.featurize", "stages.pretrain"):
            patch.setattr(f"mfcp.{module}._MANY", 0)
        run_all(content)
    assert digests(folder) == first
    an_error_in_one_setting_ends_the_others(folder, content)

    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{folder}/mlflow.db")
    experiment = client.get_experiment_by_name("mfcp")
    runs = client.search_runs([experiment.experiment_id], max_results=1000)
    methods = len(content["methods"])
    assert len(runs) == 2 * methods * (1 + 2 * 3)  # repeats × methods × (own + settings × (parent + two seeds))
    tops = [run for run in runs if run.data.tags.get("level") == "method"]
    assert sorted(run.info.run_name for run in tops) == sorted([*content["methods"]] * 2)
    shown = next(run.data.metrics for run in tops if run.info.run_name == "mfcp_ad")
    ratio = summary["pooled"]["mfcp_ad"]["vs_tsm"]
    assert (shown["excess_vs_tsm"], shown["excess_vs_tsm.p"]) == pytest.approx((ratio["mean"], ratio["p"]))
    parent = next(r for r in runs if r.data.tags.get("mlflow.runName") == "A/mfcp_ad")
    expected = summary["A"]["mfcp_ad"]["penalised_excess"]["mean"]
    assert parent.data.metrics["penalised_excess.mean"] == pytest.approx(expected)


def test_a_method_that_params_lack_is_named(folder):
    from mfcp.stages import finetune

    with pytest.raises(SettingsError, match="no row 'tsmm' under methods; known: tam"):
        finetune.run(Settings(small()), "tsmm")


def test_a_stage_without_its_input_says_which_stage_makes_it(folder):
    from mfcp.stages import pretrain

    with pytest.raises(DataError, match=r"data/features.*no such file"):
        pretrain.run(Settings(small()))


def test_a_tracking_store_that_is_down_costs_the_tracking_only(folder, monkeypatch, capsys):
    from mfcp.stages import evaluate, featurize, finetune, ingest, pretrain, validate

    content = small(methods={"tsm": {"kind": "two_stage", "loss": "time"}})
    settings = Settings(content)
    for stage in (ingest, validate, featurize, pretrain):
        stage.run(settings)
    finetune.run(settings, "tsm")
    (folder / "mlflow.db").write_text("this is no database")
    evaluate.run(settings)
    assert (folder / "data/reports/metrics.json").is_file()
    assert "not in MLflow" in capsys.readouterr().err
