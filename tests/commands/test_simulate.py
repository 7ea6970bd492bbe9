"""`mfcp simulate` on a small trace."""

import json

import numpy as np
import pandas as pd
import pytest
from platform_log import small_log, small_release

from mfcp.cli import main
from mfcp.release.model import Release


@pytest.fixture
def trace(tmp_path):
    rng = np.random.default_rng(0)
    n = 120
    frame = pd.DataFrame({"job": [f"j{k}" for k in range(n)], "submit": np.sort(rng.uniform(0, 4e4, n)),
                          "duration": np.exp(rng.normal(7, 1, n)), "gpus": rng.choice([1, 4], n)})  # fmt: skip
    frame.to_csv(tmp_path / "trace.csv", index=False)
    return tmp_path / "trace.csv"


def call(*arguments):
    with pytest.raises(SystemExit) as end:
        main(["simulate", *map(str, arguments)])
    return end.value.code


def test_results_of_every_policy(trace, tmp_path, capsys):
    out = tmp_path / "out"
    code = call("--trace", trace, "--cluster", "2x4", "--policy", "fifo,las:limits=[600,3600]", "--compare",
                "--explain", "j40", "--out", out)  # fmt: skip
    assert code == 0
    printed = capsys.readouterr().out
    assert "las:limits=[600,3600] - fifo" in printed
    assert "fifo: job j40 is submitted at" in printed
    metrics = json.loads((out / "metrics.json").read_text())
    assert set(metrics) == {"fifo", "las:limits=[600,3600]"}
    assert metrics["fifo"]["deadlines_met"] is None
    jobs = pd.read_parquet(out / "jobs-fifo.parquet")
    assert metrics["fifo"]["mean_jct_s"] == pytest.approx(jobs["jct_s"].mean())
    assert {"log-fifo.parquet", "trace-fifo.json", "timeline.png"} <= {path.name for path in out.iterdir()}


def test_names_of_policies_stand_in_a_narrow_table(trace, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert call("--trace", trace, "--cluster", "8", "--policy", "fifo,las:limits=[600,3600]") == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("│ fifo ") for line in lines)
    assert any(line.startswith("│ las:limits=[600,360") for line in lines)
    assert max(map(len, lines)) <= 80


def test_a_check_describes_and_does_not_run(trace, capsys):
    assert call("--trace", trace, "--cluster", "8", "--policy", "fifo", "--check") == 0
    printed = capsys.readouterr().out
    assert "fingerprint" in printed
    assert "no contradictions found" in printed
    assert "JCT" not in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--policy", "magic"), "unknown policy kind 'magic'; known: allox,"),
        (("--policy", "las:limits"), "expected NAME or NAME:KEY=VALUE;KEY=VALUE, got 'limits'"),
        (("--policy", "las:limit=[1]"), "limit: unknown key"),
        (("--policy", "fifo", "--cluster", "2"), "expected a whole number of at least 1 and at most 2"),
        (("--policy", "fifo", "--semantics", "gavel"), "runs on a clock of events; choose semantics of plain"),
        (("--policy", "fifo", "--belief", "guess"), "unknown belief kind 'guess'"),
        (("--policy", "fifo", "--compare"), "--compare: needs at least two policies"),
        (("--policy", "fifo", "--explain", "x"), "--explain: no job 'x' in the trace; the first is 'j0'"),
        (("--policy", "edf"), "policy 'edf' needs deadlines; the trace has no column deadline"),
    ],
)
def test_bad_input_is_one_line_with_a_remedy(trace, capsys, arguments, message):
    given = ("--trace", trace, *(() if "--cluster" in arguments else ("--cluster", "8")), *arguments)
    assert call(*given) == 2
    assert message in capsys.readouterr().err


def test_jobs_that_do_not_finish_are_counted_beside_the_means(tmp_path, capsys):
    trace = tmp_path / "t.csv"
    trace.write_text("job,submit_s,duration_s,gpus,deadline_s\na,0,100,1,1000\nb,1,500,1,20\n")
    options = ["--trace", trace, "--cluster", "1", "--policy"]
    assert call(*options, "fifo,elastic_flow", "--compare", "--explain", "b") == 0
    told = capsys.readouterr().out
    assert "mean JCT" in told
    assert "[s]" in told
    counts = [line.split() for line in told[told.index("jobs in no completion time") :].splitlines()]
    assert ["│", "elastic_flow", "│", "1", "│", "0", "│", "0", "│"] in counts
    assert "1 jobs that do not finish in both are left out" in told
    assert "elastic_flow: job b is submitted at 1 s, never starts, is declined" in told
    assert call(*options, "fifo") == 0
    assert "declined" not in capsys.readouterr().out


def test_columns_speeds_and_no_policy_for_a_check(tmp_path, capsys):
    (tmp_path / "t.csv").write_text(
        "who,when,long,n,model\na,2024-01-01 00:00:00,10,1,bert\nb,2024-01-01 00:00:05,10,0,x\n"
    )
    (tmp_path / "s.csv").write_text("model,type,speed\nbert,gpu,2\n")
    names = ("--trace", tmp_path / "t.csv", "--cluster", 4, "--columns", "job=who,submit=when,duration=long,gpus=n")
    assert call(*names, "--check") == 0
    assert "1 jobs ask for no accelerators, and are left out" in capsys.readouterr().out
    assert call(*names, "--policy", "fifo", "--speeds", tmp_path / "s.csv", "--out", tmp_path / "out") == 0
    assert json.loads((tmp_path / "out/metrics.json").read_text())["fifo"]["mean_jct_s"] == 5
    assert pd.read_csv(tmp_path / "out/left_out.csv")["column"].tolist() == ["n"]
    capsys.readouterr()
    assert call(*names) == 2
    assert "--policy: name at least one" in capsys.readouterr().err


def test_rigid_and_elastic_policies_side_by_side_come_with_a_word(trace, tmp_path, capsys):
    both = ("--trace", trace, "--cluster", 8, "--policy", "hydra,optimus")
    assert call(*both) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "optimus chooses how many accelerators a job has; the others run it on what it asks for" in printed
    assert "the number to the power 0.9 stands in (--configurations)" in printed
    frame = pd.DataFrame([{"job": f"j{k}", "gpus": size, "speed": size} for k in range(120) for size in (1, 2, 4)])
    frame.to_csv(tmp_path / "ways.csv", index=False)
    assert call(*both, "--configurations", tmp_path / "ways.csv") == 0
    assert "to the power 0.9" not in capsys.readouterr().out


def test_parts_of_accelerators_on_nodes_from_a_table(tmp_path, capsys):
    pods = ("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time,scheduled_time\n"
            "a,1000,10,1,500,,0,100,0\nb,1000,10,1,500,,0,100,0\nc,1000,10,1,1000,V100,0,50,0\n")  # fmt: skip
    (tmp_path / "pods.csv").write_text(pods)
    (tmp_path / "nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nx,2000,100,1,T4\ny,2000,100,1,V100\n")
    names = ("--trace", tmp_path / "pods.csv", "--cluster", tmp_path / "nodes.csv", "--policy", "fifo",
             "--out", tmp_path / "out")  # fmt: skip
    for placement, makespan in (("fgd", 100), ("first", 150)):
        assert call(*names, "--placement", placement) == 0
        assert json.loads((tmp_path / "out/metrics.json").read_text())["fifo"]["makespan_s"] == makespan
    log = pd.read_parquet(tmp_path / "out/log-fifo.parquet")
    assert log[(log["event"] == "started") & (log["job"] == 2)]["node"].tolist() == [1]
    assert call(*names[:2], "--cluster", 2, *names[4:]) == 0
    assert "the cluster has none of these; they are ignored" in capsys.readouterr().out


def test_what_a_release_predicts_is_a_belief(tmp_path_factory, tmp_path, capsys):
    model = tmp_path_factory.mktemp("release") / "made"
    log = small_log()
    small_release(model, log)
    ids = log["tasks"]["task_id"].tolist()[:6]
    rows = {"job": [f"j{k}" for k in range(12)], "task_id": ids * 2, "submit": range(12), "gpus": 1, "duration": 9.0}
    pd.DataFrame(rows).to_csv(tmp_path / "t.csv", index=False)
    release = f"release:path={model};cluster="
    names = ("--trace", tmp_path / "t.csv", "--cluster", 1, "--policy", "sjf", "--out", tmp_path / "out")
    assert call(*names, "--belief", release + "a") == 0
    order = pd.read_parquet(tmp_path / "out/jobs-sjf.parquet").sort_values("start_s")["job"].tolist()
    assert order[0] == "j0"
    told = Release.load(model).predict({"tasks": log["tasks"].iloc[:6]}).T[0, 0]
    rest = [int(name[1:]) % 6 for name in order[2:]]  # all others wait when the first has ended
    assert np.all(np.diff(told[rest]) >= 0)
    capsys.readouterr()
    assert call(*names, "--belief", release + "nowhere") == 2
    assert "unknown cluster 'nowhere'; the release knows a" in capsys.readouterr().err
    assert call(*names, "--belief", "release:path=x") == 2
    assert "expected release:path=DIR;cluster=ID" in capsys.readouterr().err
