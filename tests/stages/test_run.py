"""The stages of dvc.yaml one after another on a small emulated platform, twice: same results to the byte."""

import hashlib
import json
from contextlib import nullcontext
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


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder in which the pipeline has run once, its settings, and digests of what it has left."""
    root, content = tmp_path_factory.mktemp("pipeline"), small()
    with pytest.MonkeyPatch.context() as patch:
        inside(patch, root)
        run_all(content)
    return root, content, digests(root)


@pytest.fixture
def pipeline(made, monkeypatch):
    inside(monkeypatch, made[0])
    return made


def inside(patch, root):
    patch.chdir(root)
    patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{root}/mlflow.db")


def digests(folder):
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((folder / "data").rglob("*"))
        if path.is_file()
    }


@pytest.mark.xdist_group("pipeline")
def test_the_pipeline_end_to_end_twice(pipeline, capsys):
    folder, content, first = pipeline
    summary = json.loads((folder / "data/reports/metrics.json").read_text())
    assert set(summary) == {"A", "B", "pooled"}
    assert set(summary["A"]) == set(content["methods"])
    assert summary["A"]["mfcp_ad"]["penalised_excess"]["n"] == 2
    assert "| tsm_log_bayes |" in (folder / "data/reports/comparison.md").read_text()
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
    assert "report.html" in capsys.readouterr().out
    assert digests(folder) == first

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


@pytest.mark.xdist_group("pipeline")
def test_an_error_in_one_setting_ends_the_others(pipeline, monkeypatch):
    from mfcp.stages import finetune

    folder, content, first = pipeline
    steps, done = 30_000, []  # minutes, were the other waited for
    monkeypatch.setattr(finetune, "progress", lambda *_: nullcontext(lambda: done.append(1)))
    endless = content | {"finetune": content["finetune"] | {"steps": steps}}
    damaged = folder / "data/models/pretrain/B.safetensors"
    whole = damaged.read_bytes()
    damaged.unlink()
    with pytest.raises(DataError, match=r"B\.safetensors"):
        finetune.run(Settings(endless), "mfcp_ad")
    damaged.write_bytes(whole)
    assert len(done) < steps
    assert digests(folder) == first


@pytest.mark.xdist_group("pipeline")
def test_a_tracking_store_that_is_down_costs_the_tracking_only(pipeline, capsys):
    from mfcp.stages import evaluate

    folder, content, _ = pipeline
    store, metrics = folder / "mlflow.db", folder / "data/reports/metrics.json"
    whole = store.read_bytes()
    store.write_text("this is no database")
    metrics.unlink()
    evaluate.run(Settings(content))
    store.write_bytes(whole)
    assert metrics.is_file()
    assert "not in MLflow" in capsys.readouterr().err


@pytest.fixture
def folder(tmp_path, monkeypatch):
    inside(monkeypatch, tmp_path)
    return tmp_path


def test_a_method_that_params_lack_is_named(folder):
    from mfcp.stages import finetune

    with pytest.raises(SettingsError, match="no row 'tsmm' under methods; known: tam"):
        finetune.run(Settings(small()), "tsmm")


def test_a_stage_without_its_input_says_which_stage_makes_it(folder):
    from mfcp.stages import pretrain

    with pytest.raises(DataError, match=r"data/features.*no such file"):
        pretrain.run(Settings(small()))
