"""The command as a user meets it: exit codes, one line per error, JSON that a script can read."""

import json

import numpy as np
import pandas as pd
import pytest
from toy import toy_pool

from mfcp.cli import main


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return ended.value.code, out, err


@pytest.fixture
def matrices(tmp_path):
    rng = np.random.default_rng(0)
    T, A = rng.lognormal(size=(3, 5)), rng.uniform(0.7, 1.0, (3, 5))
    np.save(tmp_path / "t.npy", T)
    np.savetxt(tmp_path / "a.csv", A, delimiter=",")
    return tmp_path, T, A


def test_solve_prints_a_plan_that_holds(matrices, capsys):
    folder, T, A = matrices
    code, out, _ = run(capsys, "solve", "--times", folder / "t.npy", "--reliability", folder / "a.csv", "--gamma", 0.85)
    assert code == 0
    result = json.loads(out)
    plan = np.array(result["assignment"])
    loads = [T[i, plan == i].sum() for i in range(3)]
    assert result["makespan"] == pytest.approx(max(loads))
    assert result["lower_bound"] <= result["makespan"] + 1e-9
    assert result["reliability"] == pytest.approx(A[plan, range(5)].mean())
    assert result["reliability"] >= 0.85
    assert result["status"] == "optimal"


def test_solve_writes_the_same_to_a_file(matrices, capsys):
    folder, *_ = matrices
    arguments = ["solve", "--times", folder / "t.npy", "--reliability", folder / "a.csv", "--gamma", 0.8]
    _, out, _ = run(capsys, *arguments)
    run(capsys, *arguments, "--engine", "milp", "--out", folder / "plan.json")
    one, two = json.loads(out), json.loads((folder / "plan.json").read_text())
    assert one["makespan"] == pytest.approx(two["makespan"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"--times": "none.npy"}, "none.npy: no such file"),
        ({"--times": "text.csv"}, "text.csv: not a numeric"),
        ({"--times": "short.npy"}, "short.npy: not a numeric"),
        ({"--times": "pickle.npy"}, "pickle.npy: not a numeric"),
        ({"--times": "negative.csv"}, "T\\[0, 1\\] = -2.0"),
        ({"--times": "wide.csv"}, "shape"),
        ({"--times": "cube.npy", "--reliability": "cube.npy"}, "expected M rows"),
        ({"--reliability": "t.npy"}, "expected a probability"),
        ({"--gamma": "0.999"}, "best reachable mean reliability .* < gamma 0.999; lower gamma"),
        ({"--gamma": "7"}, "gamma must lie in"),
        ({"--out": "t.npy/plan.json"}, "cannot write"),
    ],
)
def test_solve_on_bad_input_is_one_line_and_exit_code_2(matrices, capsys, change, words, monkeypatch):
    folder, T, _ = matrices
    monkeypatch.chdir(folder)
    (folder / "text.csv").write_text("a,b\nc,d\n")
    (folder / "short.npy").write_bytes((folder / "t.npy").read_bytes()[:90])
    np.save(folder / "pickle.npy", np.array([{"evil": 1}], dtype=object), allow_pickle=True)
    np.savetxt(folder / "negative.csv", np.where(np.arange(5) == 1, -2.0, T), delimiter=",")
    np.savetxt(folder / "wide.csv", T[:, :4], delimiter=",")
    np.save(folder / "cube.npy", np.full((2, 3, 4), 0.9))
    options = {"--times": "t.npy", "--reliability": "a.csv", "--gamma": "0.8"} | change
    code, out, err = run(capsys, "solve", *[part for pair in options.items() for part in pair])
    assert code == 2
    assert out == ""
    assert len(err.splitlines()) == 1
    import re

    assert re.search(words, err), err


@pytest.mark.parametrize(
    "arguments", [[], ["sovle"], ["solve"], ["benchmark", "--data", "x", "--out", "y", "--seeds", "0"]]
)
def test_bad_usage_is_exit_code_2(capsys, arguments):
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert "usage: mfcp" in err


def test_a_table_of_something_else_is_refused(tmp_path, capsys):
    (tmp_path / "m.json").write_text("[1, 2]")
    code, _, err = run(capsys, "table", tmp_path / "m.json")
    assert code == 2
    assert "not a metrics.json" in err


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

    from mfcp.cli import default_params

    content = yaml.safe_load(default_params().read_text())
    content["pretrain"]["training"]["epochs"] = 20
    content["finetune"] |= {"steps": 4, "rounds": 4, "check_every": 2}
    content["evaluate"] |= {"rounds": 20, "bootstrap": 100}
    content["matching"]["validation_rounds"] = 20
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


@pytest.mark.parametrize("regime", ["sequential", "parallel"])
def test_benchmark_of_a_bare_log(tmp_path, capsys, regime):
    log, params = write_log(tmp_path / "log"), small_params(tmp_path / "p.yaml")
    arguments = ["benchmark", "--data", log, "--params", params, "--settings", 2, "--seeds", 2, "--tasks", 3,
                 "--methods", "tsm,mfcp_ad,tsm_log_bayes", "--regime", regime]  # fmt: skip
    code, out, err = run(capsys, *arguments, "--out", tmp_path / "one")
    assert code == 0, err
    assert "emulated, not measured:" in out
    assert "failures" in out.splitlines()[-1]
    summary = json.loads((tmp_path / "one/metrics.json").read_text())
    assert set(summary) == {"A", "B", "pooled"}
    assert set(summary["A"]) == {"tsm", "mfcp_ad", "tsm_log_bayes"}
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
        (["--settings", "9"], "clusters share enough tasks, 9 settings asked"),
        (["--tasks", "40"], "tasks for rounds of 40"),
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
