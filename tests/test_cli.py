"""The command as a user meets it: exit codes, one line per error, JSON that a script can read."""

import json
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from toy import toy_pool

from mfcp.cli import main
from mfcp.commands.solve import ENGINES
from mfcp.matching.engines.base import Engine
from mfcp.registry import import_members


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


def test_solve_writes_the_same_to_a_file_and_says_one_line(matrices, capsys):
    folder, *_ = matrices
    arguments = ["solve", "--times", folder / "t.npy", "--reliability", folder / "a.csv", "--gamma", 0.8]
    _, out, _ = run(capsys, *arguments)
    _, line, _ = run(capsys, *arguments, "--engine", "milp", "--out", folder / "plan.json")
    one, two = json.loads(out), json.loads((folder / "plan.json").read_text())
    assert one.keys() == two.keys()
    assert one["makespan"] == pytest.approx(two["makespan"])
    assert len(line.splitlines()) == 1
    for words in ("optimal", f"makespan {two['makespan']:.6g} s", "bound", "gap", "reliability", "engine milp"):
        assert words in line


def test_solve_takes_all_that_a_platform_adds(matrices, capsys):
    folder, T, _ = matrices
    np.savetxt(folder / "allowed.csv", [[0, 1, 1, 1, 1], [1, 1, 1, 1, 1], [1, 1, 1, 1, 1]], delimiter=",")
    np.savetxt(folder / "backlog.csv", [0.5, 0.0, 0.25])  # one column
    np.save(folder / "deadline.npy", [np.inf, np.inf, 9.0, np.inf, np.inf])
    np.savetxt(folder / "memory.csv", [[4, 3, 2, 1, 1]], delimiter=",")
    np.savetxt(folder / "room.csv", [[6, 5, 6]], delimiter=",")
    np.savetxt(folder / "cost.csv", T * 2, delimiter=",")
    code, out, err = run(
        capsys, "solve", "--times", folder / "t.npy", "--reliability", folder / "a.csv", "--gamma", 0.8,
        "--allowed", folder / "allowed.csv", "--backlog", folder / "backlog.csv", "--deadline", folder / "deadline.npy",
        "--capacity", f"memory={folder / 'memory.csv'}:{folder / 'room.csv'}", "--max-tasks", 2,
        "--cost", folder / "cost.csv", "--weights", "makespan=1,cost=0.5",
    )  # fmt: skip
    assert code == 0, err
    result = json.loads(out)
    plan = np.array(result["assignment"])
    counts = np.bincount(plan, minlength=3)
    assert counts.max() <= 2
    assert plan[0] != 0
    assert (np.bincount(plan, [4, 3, 2, 1, 1], 3) <= [6, 5, 6]).all()
    busy = np.bincount(plan, T[plan, range(5)], 3)
    assert result["busy"] == pytest.approx(busy)
    assert result["makespan"] == pytest.approx(max((busy + np.array([0.5, 0, 0.25]))[counts > 0]))
    assert result["objective"] == pytest.approx(result["makespan"] + busy.sum())
    assert result["status"] == "optimal"


def test_solve_runs_tasks_side_by_side(matrices, capsys):
    folder, T, _ = matrices
    np.savetxt(folder / "zeta.csv", [[1.0, 1.0, 0.8, 0.7, 0.6, 0.5]], delimiter=",")
    arguments = ["--times", folder / "t.npy", "--reliability", folder / "a.csv", "--gamma", 0, "--engine", "greedy"]
    code, out, _ = run(capsys, "solve", *arguments, "--zeta", folder / "zeta.csv")
    assert code == 0
    plan, factor = np.array(json.loads(out)["assignment"]), np.array([1.0, 1.0, 0.8, 0.7, 0.6, 0.5])
    busy = np.bincount(plan, T[plan, range(5)], 3) * factor[np.bincount(plan, minlength=3)]
    assert json.loads(out)["busy"] == pytest.approx(busy)


def test_solve_says_null_where_there_is_no_gap(matrices, capsys):
    """A cost of nothing: the bound is 0, which no ratio can be taken of, but the plan of cost 0 meets it."""
    folder, T, _ = matrices
    np.save(folder / "cost.npy", np.zeros_like(T))
    arguments = ["--times", folder / "t.npy", "--reliability", folder / "a.csv", "--gamma", 0.0]
    code, out, _ = run(capsys, "solve", *arguments, "--cost", folder / "cost.npy", "--weights", "cost=1")
    assert code == 0
    assert json.loads(out)["gap"] == 0.0
    rng = np.random.default_rng(0)
    np.save(folder / "long.npy", rng.lognormal(size=(3, 30)))
    np.save(folder / "sure.npy", np.ones((3, 30)))
    np.save(folder / "cost.npy", np.where(np.arange(3)[:, None] == 0, 0.0, np.ones((3, 30))))
    arguments = ["--times", folder / "long.npy", "--reliability", folder / "sure.npy", "--gamma", 0.0]
    code, out, _ = run(capsys, "solve", *arguments, "--cost", folder / "cost.npy", "--weights", "cost=1",
                       "--max-tasks", 20, "--engine", "greedy")  # fmt: skip
    assert code == 0
    assert json.loads(out)["lower_bound"] == 0.0
    assert json.loads(out)["gap"] is None


def test_engines_of_the_command_are_those_that_exist():
    import_members("mfcp.matching.engines")
    assert list(ENGINES) == sorted(Engine.members)


def test_what_highs_prints_does_not_spoil_the_json(matrices):
    """Its notes go to the process's own standard output, past Python's."""
    folder, *_ = matrices
    program = (
        "import ctypes, mfcp.matching.planning as p, mfcp.cli as c\n"
        "solve = p.solve\n"
        "p.solve = lambda *a, **k: (ctypes.CDLL(None).puts(b'note'), solve(*a, **k))[1]\n"
        f"c.main(['solve', '--times', '{folder}/t.npy', '--reliability', '{folder}/a.csv', '--gamma', '0.8'])"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert json.loads(out)["status"] == "optimal"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"--times": "none.npy"}, "none.npy: no such file"),
        ({"--times": "."}, r"\.: not a numeric matrix: .*directory"),
        ({"--times": "text.csv"}, "text.csv: not a numeric matrix: line 1, column 1: 'a' is not a number; expected"),
        ({"--times": "header.csv"}, "header.csv: .*line 1, column 1: 'x' is not a number; expected .* without header"),
        ({"--times": "gap.csv"}, "gap.csv: .*line 2, column 3: '' is not a number"),
        ({"--times": "ragged.csv"}, "ragged.csv: .*line 3 has 4 values, the first has 5"),
        ({"--times": "binary.csv"}, "binary.csv: not a numeric matrix"),
        ({"--times": "empty.csv"}, "empty.csv: expected M rows × N columns"),
        ({"--times": "empty.npy"}, "empty.npy: not a numeric matrix"),
        ({"--times": "zero.npy"}, "zero.npy: expected M rows × N columns"),
        ({"--times": "short.npy"}, "short.npy: not a numeric matrix"),
        ({"--times": "pickle.npy"}, "pickle.npy: not a numeric matrix: .*objects"),
        ({"--times": "complex.npy"}, "complex.npy: not a numeric matrix: its entries are complex128"),
        ({"--times": "words.npy"}, "words.npy: not a numeric matrix: its entries are"),
        ({"--times": "vector.npy"}, "vector.npy: expected M rows × N columns"),
        ({"--times": "negative.csv"}, r"negative.csv: T\[0, 1\] = -2.0: expected a positive .*mend row 1, column 2"),
        ({"--times": "nan.npy"}, r"nan.npy: T\[2, 0\] = nan: expected a positive .*mend row 3, column 1"),
        ({"--times": "wide.csv"}, "a.csv: expected 3 rows × 4 columns as --times has, got 3 × 5"),
        ({"--times": "cube.npy", "--reliability": "cube.npy"}, "cube.npy: expected M rows"),
        ({"--reliability": "t.npy"}, r"t.npy: A\[.*\] = .*: expected a probability in \[0, 1\]; mend row"),
        ({"--gamma": "0.999"}, "best reachable mean reliability .* < gamma 0.999; lower gamma"),
        ({"--gamma": "7"}, r"--gamma: gamma must lie in \[0, 1\], got 7"),
        ({"--gamma": "nan"}, "--gamma: gamma must lie in"),
        ({"--time-limit": "0"}, "--time-limit: expected seconds above 0, got 0"),
        ({"--out": "t.npy/plan.json"}, "cannot write"),
        ({"--out": "."}, "cannot write"),
        ({"--allowed": "nowhere.csv"}, r"nowhere.csv: task 1 \(column 2\) has no allowed cluster; allow one or drop"),
        ({"--allowed": "a.csv"}, "a.csv: row 1, column 1 is 0.*; expected 1 .* or 0"),
        ({"--allowed": "wide.csv"}, "wide.csv: expected 3 rows × 5 columns as --times has, got 3 × 4"),
        ({"--backlog": "five.csv"}, "five.csv: expected 3 numbers, one per cluster, got 1 × 5"),
        ({"--backlog": "minus.csv"}, r"minus.csv: backlog\[1\] = -1.0: expected at least 0 seconds.*; mend entry 2"),
        ({"--deadline": "minus.csv"}, "minus.csv: expected 5 numbers, one per task, got 3 × 1"),
        ({"--deadline": "five.csv"}, r"five.csv: task \d \(column \d\) has no allowed cluster that meets its deadline"),
        ({"--max-tasks": "1"}, "capacity 'tasks' is exceeded by 1 under every plan; raise its limits"),
        ({"--max-tasks": "some"}, "--max-tasks some: expected a number or a .npy or CSV file of 3 numbers, got 'some'"),
        ({"--max-tasks": "five.csv"}, "five.csv: expected 3 numbers, one per cluster"),
        ({"--max-tasks": "-1"}, "--max-tasks -1: capacity 'tasks': limit must be at least 0"),
        ({"--capacity": "memory"}, "--capacity memory: expected NAME=USE:LIMIT"),
        ({"--capacity": "memory=five.csv:five.csv"}, "five.csv: expected 3 numbers, one per cluster"),
        ({"--capacity": "memory=minus.csv:3"}, "minus.csv: expected 5 numbers, one per task, or 3 rows"),
        ({"--capacity": "reliability=five.csv:3"}, "capacities need names of their own"),
        ({"--zeta": "five.csv"}, "five.csv: expected factors for 0 … 5 tasks at once, 6 numbers or 3 rows of them"),
        ({"--zeta": "six.csv"}, "six.csv: zeta must hold positive finite factors"),
        ({"--zeta": "t.npy", "--engine": "milp"}, "t.npy: expected factors"),
        ({"--cost": "negative.csv"}, r"negative.csv: cost\[0, 1\] = -2.0: expected finite and at least 0"),
        ({"--weights": "speed=1"}, "--weights speed=1: unknown 'speed'; known: makespan, total_time, cost"),
        ({"--weights": "makespan=fast"}, "--weights makespan=fast: expected makespan=NUMBER"),
        ({"--weights": "makespan=0"}, "--weights makespan=0: weights of the objective must be .* not all 0"),
        ({"--weights": "cost=1"}, "--weights cost=1: cost is weighed but not given; add --cost FILE"),
    ],
)  # fmt: skip
def test_solve_on_bad_input_is_one_line_and_exit_code_2(matrices, capsys, change, words, monkeypatch):
    folder, T, _ = matrices
    monkeypatch.chdir(folder)
    write_bad_files(folder, T)
    options = {"--times": "t.npy", "--reliability": "a.csv", "--gamma": "0.8"} | change
    code, out, err = run(capsys, "solve", *[f"{key}={value}" for key, value in options.items()])
    assert code == 2
    assert out == ""
    assert len(err.splitlines()) == 1
    assert re.search(words, err), err


def write_bad_files(folder, T):
    (folder / "text.csv").write_text("a,b\nc,d\n")
    (folder / "header.csv").write_text("x,y,z,v,w\n1,2,3,4,5\n1,2,3,4,5\n")
    (folder / "gap.csv").write_text("1,2,3,4,5\n1,2,,4,5\n1,2,3,4,5\n")
    (folder / "ragged.csv").write_text("1,2,3,4,5\n1,2,3,4,5\n1,2,3,4\n")
    (folder / "binary.csv").write_bytes(bytes(range(256)))
    (folder / "empty.csv").write_text("")
    (folder / "empty.npy").write_text("")
    (folder / "nowhere.csv").write_text("1,0,1,1,1\n" * 3)
    (folder / "five.csv").write_text("0.1,0.1,0.1,0.1,0.1\n")
    (folder / "minus.csv").write_text("1\n-1\n1\n")
    (folder / "six.csv").write_text("1,1,0.9,0,0.9,0.9\n")
    (folder / "short.npy").write_bytes((folder / "t.npy").read_bytes()[:90])
    np.save(folder / "zero.npy", np.zeros((0, 5)))
    np.save(folder / "vector.npy", np.ones(5))
    np.save(folder / "complex.npy", T + 1j)
    np.save(folder / "words.npy", T.astype(str))
    np.save(folder / "nan.npy", np.where(np.arange(15).reshape(3, 5) == 10, np.nan, T))
    np.save(folder / "pickle.npy", np.array([{"evil": 1}], dtype=object), allow_pickle=True)
    np.savetxt(folder / "negative.csv", np.where(np.arange(5) == 1, -2.0, T), delimiter=",")
    np.savetxt(folder / "wide.csv", T[:, :4], delimiter=",")
    np.save(folder / "cube.npy", np.full((2, 3, 4), 0.9))


def test_solve_that_finds_no_plan_says_so(tmp_path, capsys):
    """5 + 5 and 4 + 3 + 3 fit, but a list that balances the clusters parts the fives."""
    np.savetxt(tmp_path / "t.csv", np.ones((2, 5)), delimiter=",")
    np.savetxt(tmp_path / "use.csv", [[5, 5, 4, 3, 3]], delimiter=",")
    arguments = ["solve", "--times", tmp_path / "t.csv", "--reliability", tmp_path / "t.csv", "--gamma", 1,
                 "--capacity", f"memory={tmp_path / 'use.csv'}:10"]  # fmt: skip
    code, _, _ = run(capsys, *arguments, "--engine", "exact")
    assert code == 0
    code, out, err = run(capsys, *arguments, "--engine", "greedy")
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert "engine 'greedy' found no plan" in err


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

    from mfcp.commands.benchmark import default_params

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
