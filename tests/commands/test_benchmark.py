"""`mfcp benchmark`: the whole comparison on a log as bare as real ones come."""

import json

import numpy as np
import pandas as pd
import pytest
from commands.called import run
from toy import toy_pool

from mfcp.evaluation import benchmark


def write_log(folder):
    """A log without graphs, failures or samples, with missing pairs: as bare as real ones come."""
    pool, features = toy_pool(tasks=60, clusters=4)
    folder.mkdir()
    tasks = pd.DataFrame({"task_id": pool.task_id, "model": [f"{f}-{j}" for j, f in enumerate(pool.family)]})
    tasks["flops"], tasks["param_count"] = np.exp(20 + features[:, 1]), np.exp(15 + features[:, 0]).astype(int)
    for column in ("domain", "batch_size", "input_size", "precision", "phase", "activations", "graph_id"):
        tasks[column] = None
    clusters = pd.DataFrame({"cluster_id": pool.cluster_id})
    for column in ("accelerator", "accelerator_count", "memory_bytes", "peak_flops", "memory_bandwidth",
                   "interconnect_bandwidth", "software"):  # fmt: skip
        clusters[column] = None
    i, j = np.nonzero(pool.allowed)
    runs = pd.DataFrame({"run_id": [f"r{k}" for k in range(len(i))]})
    runs["task_id"], runs["cluster_id"], runs["attempt"] = pool.task_id[j], pool.cluster_id[i], 1
    runs["step_time_s"], runs["samples_per_s"] = pool.T[i, j], 1 / pool.T[i, j]
    runs["duration_s"], runs["status"], runs["started_at"] = None, "succeeded", None
    for name, table in {"tasks": tasks, "clusters": clusters, "runs": runs}.items():
        table.to_csv(folder / f"{name}.csv", index=False)
    return folder


def small_params(path):
    import yaml

    from mfcp.commands.reading import default_params

    content = yaml.safe_load(default_params().read_text())
    content["pretrain"]["training"]["epochs"] = 20
    content["finetune"] |= {"steps": 4, "rounds": 4, "check_every": 2}
    content["evaluate"] |= {"rounds": 20, "bootstrap": 100}
    content["matching"]["validation_rounds"] = 20
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


def test_results_of_two_comparisons_are_never_mixed(tmp_path, capsys, monkeypatch):
    """An end before the last file, the report, leaves those before as they were; a figure without its method goes."""
    log, params, out = write_log(tmp_path / "log"), small_params(tmp_path / "p.yaml"), tmp_path / "out"
    arguments = ("benchmark", "--data", log, "--params", params, "--settings", 1, "--seeds", 1, "--methods", "tsm")
    found, compare = [], benchmark.benchmark
    monkeypatch.setattr(benchmark, "benchmark", lambda *given: found.append(compare(*given)) or found[0])
    assert run(capsys, *arguments, "--out", out)[0] == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    for own in found[0].summary.values():  # as without the method that others are compared with
        for metrics in own.values():
            del metrics["vs_tsm"]
    monkeypatch.setattr(benchmark, "benchmark", lambda *_: found[0])

    def broken(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("mfcp.evaluation.report.write_report", broken)
        assert run(capsys, *arguments, "--out", out)[0] == 130
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert run(capsys, *arguments, "--out", out)[0] == 0
    assert {path.name for path in out.iterdir()} == set(before) - {"ratios.png"}


@pytest.mark.parametrize("regime", ["sequential", "parallel"])
def test_benchmark_of_a_bare_log(tmp_path, capsys, regime):
    log, params = write_log(tmp_path / "log"), small_params(tmp_path / "p.yaml")
    arguments = ["benchmark", "--data", log, "--params", params, "--settings", 2, "--seeds", 2, "--tasks", 3,
                 "--methods", "tsm,mfcp_ad,tsm_log_bayes", "--regime", regime]  # fmt: skip
    code, out, err = run(capsys, *arguments, "--out", tmp_path / "one")
    assert code == 0, err
    assert "emulated, not measured:" in out
    assert "failures" in out.splitlines()[-2]
    summary = json.loads((tmp_path / "one/metrics.json").read_text())
    assert set(summary) == {"A", "B", "pooled"}
    assert set(summary["A"]) == {"tsm", "mfcp_ad", "tsm_log_bayes"}
    report = (tmp_path / "one/report.html").read_text()
    emulated = json.loads((tmp_path / "one/pool.json").read_text())["emulated"]
    assert f"Emulated log: its {', '.join(emulated)} never took place." in report
    assert "clusters of setting B" in report
    for told in (report, out):
        assert "tasks have no times by operators, for want of graphs" in " ".join(told.split())
    assert max(len(line) for line in out.splitlines() if str(tmp_path) not in line) <= 80
    rounds = pd.read_parquet(tmp_path / "one/rounds.parquet")
    assert {"setting", "method", "seed", "round", "penalised_excess"} <= set(rounds.columns)
    run(capsys, *arguments, "--out", tmp_path / "two")
    assert (tmp_path / "one/metrics.json").read_bytes() == (tmp_path / "two/metrics.json").read_bytes()


def test_failures_off_leaves_time_alone(tmp_path, capsys):
    log, params = write_log(tmp_path / "log"), small_params(tmp_path / "p.yaml")
    code, _out, err = run(capsys, "benchmark", "--data", log, "--params", params, "--settings", 1, "--seeds", 1,
                         "--tasks", 3, "--methods", "tsm", "--failures", "off", "--out", tmp_path / "one")  # fmt: skip
    assert code == 0, err
    metrics = json.loads((tmp_path / "one/metrics.json").read_text())["A"]["tsm"]
    assert metrics["reliability"]["mean"] == 1.0
    assert metrics["shortfall"]["mean"] == 0.0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--data", "nowhere"], "nowhere: no such folder"),
        (["--methods", "tsm,magic"], "--methods: unknown 'magic'; known: tam"),
        (["--params", "none.yaml"], "none.yaml: no such file"),
        (["--settings", "9"], "too small for what is asked for: --settings 9: at most 4. What works: --settings 4"),
        (["--tasks", "40"], "--tasks 40: at most"),
        (["--gamma-quantile", "1.5"], "matching.gamma_quantile"),
        (["--out", "p.yaml/out"], "cannot write"),
    ],
)
def test_benchmark_on_bad_input(tmp_path, capsys, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    write_log(tmp_path / "log")
    small_params(tmp_path / "p.yaml")
    options = {"--data": "log", "--out": "out", "--params": "p.yaml"} | dict([arguments])
    code, _out, err = run(capsys, "benchmark", *[part for pair in options.items() for part in pair])
    assert code == 2
    assert len(err.splitlines()) == 1, err
    assert words in err
    assert not (tmp_path / "out" / "metrics.json").exists()
