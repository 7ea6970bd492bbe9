"""`mfcp simulate` on a small trace."""

import errno
import json

import numpy as np
import pandas as pd
import pytest

from mfcp.cli import main


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


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device")])
def test_results_of_two_runs_are_never_mixed(trace, tmp_path, capsys, monkeypatch, error):
    """An end before the last file, the figure, leaves the run before as it was."""
    out = tmp_path / "out"
    with trace.open("a") as file:
        file.write("bad,0,-5,1\n")
    how = ("--trace", trace, "--leave-out", "--policy", "fifo,las", "--out", out)
    assert call(*how, "--cluster", "2x4") == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    assert "left_out.csv" in before

    def broken(*_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr("mfcp.simulator.timeline.draw_timeline", broken)
        assert call(*how, "--cluster", "3x4") in (2, 130)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    if isinstance(error, OSError):
        assert f"error: {out}: cannot write (No space left on device)" in capsys.readouterr().err
    trace.write_text(trace.read_text().replace("bad,0,-5,1\n", ""))
    assert call(*how, "--cluster", "3x4") == 0
    assert {path.name for path in out.iterdir()} == set(before) - {"left_out.csv"}  # nothing was left out
    assert (out / "jobs-fifo.parquet").read_bytes() != before["jobs-fifo.parquet"]


def test_json_is_one_object_with_what_the_tables_say(trace, tmp_path, capsys):
    how = ("--trace", trace, "--cluster", "2x4")
    assert call(*how, "--policy", "fifo,srsf", "--compare", "--json", "--out", tmp_path / "out") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["policies"] == json.loads((tmp_path / "out" / "metrics.json").read_text())
    minus = told["minus"]["srsf"]
    means = [told["policies"][name]["mean_jct_s"] for name in ("srsf", "fifo")]
    assert minus["mean_s"] == pytest.approx(means[0] - means[1])
    assert call(*how, "--check", "--json") == 0
    assert json.loads(capsys.readouterr().out)["jobs"] == len(pd.read_csv(trace))
    assert call(*how, "--policy", "fifo", "--json", "--explain", "j1") == 2


def test_policies_given_one_by_one_are_all_run(trace, capsys):
    how = ("--trace", trace, "--cluster", "2x4", "--json", "--policy", "fifo")
    assert call(*how, "--policy", "las:promote=2,srsf") == 0
    assert list(json.loads(capsys.readouterr().out)["policies"]) == ["fifo", "las:promote=2", "srsf"]
    assert call(*how, "--policy", "fifo") == 2


def test_names_of_policies_stand_in_a_narrow_table(trace, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert call("--trace", trace, "--cluster", "8", "--policy", "fifo,las:limits=[600,3600]") == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split()[:1] == ["fifo"] for line in lines)
    assert any(line.strip().startswith("las:limits=[600,360") for line in lines)
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
        (("--policy", "las:limits=[3600,600]"), "expected numbers above 0, each above the one before"),
        (("--policy", "las:limits=[0,600]"), "expected numbers above 0, each above the one before"),
        (("--policy", "las:limits=[600"), "a bracket is not closed"),
        (("--policy", "fifo,srsf,fifo"), "'fifo' is there twice; keep one, or give it another setting"),
        (("--policy", "fifo", "--cluster", "2"), "expected a whole number of at least 1 and at most 2"),
        (("--policy", "fifo", "--semantics", "gavel"), "runs on a clock of events; choose semantics of plain"),
        (("--policy", "fifo", "--belief", "guess"), "unknown durations kind 'guess'"),
        (("--policy", "fifo", "--compare"), "--compare: needs at least two policies"),
        (("--policy", "fifo", "--explain", "x"), "--explain: no job 'x' in the trace; the first is 'j0'"),
        (("--policy", "edf"), "policy 'edf' needs deadlines; the trace has no column deadline"),
        (("--policy", "fifo", "--seed", "-1"), "--seed: expected a whole number of at least 0, got -1"),
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
    assert ["elastic_flow", "1", "0", "0"] in counts
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


def test_what_is_left_out_holds_no_formula_for_a_spreadsheet(tmp_path, capsys):
    (tmp_path / "t.csv").write_text("job,submit_s,duration_s,gpus\na,0,10,1\nb,5,=cmd(),1\n")
    own = ("--trace", tmp_path / "t.csv", "--cluster", 4, "--policy", "fifo", "--leave-out", "--out", tmp_path / "out")
    assert call(*own) == 0
    assert pd.read_csv(tmp_path / "out/left_out.csv")["value"].tolist() == ["'=cmd()"]


def test_policies_that_pack_ask_for_speeds_of_pairs(trace, tmp_path, capsys):
    own = ("--trace", trace, "--cluster", 8, "--policy", "gandiva")
    assert call(*own) == 0
    assert "here none does: how fast they are together is not told (--pairs)" in " ".join(
        capsys.readouterr().out.split()
    )
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("model_a,model_b,speed_a,speed_b\nx,x,0.9,0.9\n")
    assert call(*own, "--pairs", pairs) == 2
    assert "pairs.csv: no row is about a model of the trace" in capsys.readouterr().err
    (tmp_path / "t.csv").write_text("job,submit_s,duration_s,gpus,model\na,0,100,1,x\nb,0,100,1,x\n")
    both = ("--trace", tmp_path / "t.csv", "--cluster", 1, "--policy", "fifo,gandiva", "--pairs", pairs)
    assert call(*both) == 0
    assert "fifo: no jobs share accelerators, so --pairs changes nothing." in capsys.readouterr().out


def test_hare_is_told_to_choose_and_needs_no_power_law(trace, capsys):
    assert call("--trace", trace, "--cluster", 8, "--policy", "hare,fifo") == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "hare chooses how many accelerators a job has; the others run it on what it asks for" in printed
    assert "power 0.9" not in printed


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


def test_sizes_that_were_not_measured_are_predicted_and_told(tmp_path, capsys):
    (tmp_path / "t.csv").write_text("job,submit_s,duration_s,gpus,model\na,0,100,1,=x\nb,0,100,1,y\n")
    ways = tmp_path / "ways.csv"
    ways.write_text("model,gpus,speed\n=x,1,1\n=x,4,3\ny,1,1\ny,2,1.9\n")
    own = ("--trace", tmp_path / "t.csv", "--cluster", 8, "--policy", "optimus")
    sizes = ("--configurations", ways, "--sizes", "8, 2,1,2", "--out", tmp_path / "out")
    assert call(*own, *sizes) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "3 ways to run are predicted from the 4 that were measured; 2 of them have more accelerators" in printed
    told = pd.read_csv(tmp_path / "out/configurations.csv")
    assert told["model"].tolist() == ["'=x"] * 4 + ["y"] * 3  # no formula for a spreadsheet
    assert told["gpus"].tolist() == [1, 2, 4, 8, 1, 2, 8]
    assert told["predicted"].tolist() == [False, True, False, True, False, False, True]
    assert call(*own, *sizes, "--json") == 0
    assert "optimus" in json.loads(capsys.readouterr().out)["policies"]
    assert call(*own, "--sizes", "2") == 2
    assert "--sizes 2: predicted from measured ones; give them by --configurations" in capsys.readouterr().err
    assert call(*own, "--configurations", ways, "--sizes", ",".join(map(str, range(1, 102)))) == 2
    assert "--sizes: 101 numbers of accelerators; give 100 at most" in capsys.readouterr().err
    assert call(*own, "--configurations", ways, "--sizes", "2,none") == 2
    assert "--sizes 2,none: expected numbers of accelerators, as 1,2,4,8; got 'none'" in capsys.readouterr().err
