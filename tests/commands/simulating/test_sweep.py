"""Sweeps: every run once, kept over a kill, the same over processes and over Dask."""

import json

import numpy as np
import pandas as pd
import pytest

from mfcp.cli import main
from mfcp.errors import DataError
from mfcp.files import write_json
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.policies.base import Policy
from mfcp.simulator.simulation import import_policies, simulate
from mfcp.simulator.traces.description import at_load
from mfcp.simulator.traces.reading import read_trace


@pytest.fixture
def trace(tmp_path):
    rng, n = np.random.default_rng(0), 60
    frame = pd.DataFrame({"submit": np.sort(rng.uniform(0, 4e4, n)), "duration": np.exp(rng.normal(7, 1, n)),
                          "gpus": rng.choice([1, 4], n), "success": 0.8})  # fmt: skip
    frame.to_csv(tmp_path / "trace.csv", index=False)
    return tmp_path / "trace.csv"


def call(trace, *arguments):
    with pytest.raises(SystemExit) as end:
        main(["simulate", "--trace", str(trace), "--cluster", "8", *map(str, arguments)])
    return end.value.code


def test_every_run_is_done_once_and_kept(trace, tmp_path, capsys):
    out = tmp_path / "out"
    few = ("--policy", "fifo,las:limits=[600,3600]", "--seeds", 2, "--workers", 2, "--out", out)
    assert call(trace, *few, "--loads", "0.5,0.9") == 0
    assert "8 runs, 0 done before" in capsys.readouterr().out
    before = {path: path.stat().st_mtime_ns for path in (out / "runs").iterdir()}
    assert len(before) == 8
    (out / "sweep.csv").unlink()
    next(iter(before)).unlink()  # as a kill would leave it
    assert call(trace, *few, "--loads", "0.5,0.9,1.2") == 0
    printed = capsys.readouterr().out
    assert "12 runs, 7 done before" in printed
    assert "load 1.2" in printed
    kept = [path for path in before if path.exists() and path.stat().st_mtime_ns == before[path]]
    assert len(kept) == 7
    table = pd.read_csv(out / "sweep.csv")
    import_policies()
    jobs, cluster = read_trace(trace).jobs, Cluster.parse("8")
    for row in table.itertuples():
        policy = Policy.build("fifo") if row.policy == "fifo" else Policy.build("las", limits=(600, 3600))
        own = simulate(at_load(jobs, cluster, row.load), cluster, policy, seed=row.seed)
        assert row.mean_jct_s == pytest.approx(own.metrics()["mean_jct_s"])


def test_what_a_run_depends_on_makes_it_another(trace, tmp_path, capsys):
    few = ("--policy", "sjf", "--seeds", 1, "--workers", 1, "--out", tmp_path / "out")
    for belief in ("oracle", "error:mre=0.5"):
        assert call(trace, *few, "--belief", belief) == 0
    frame = pd.read_csv(trace)
    frame.assign(deadline=1e9).to_csv(trace, index=False)
    for _ in range(2):
        assert call(trace, *few) == 0
    frame = pd.DataFrame([{"job": job, "gpus": size, "speed": size} for job in range(1, 61) for size in (1, 2)])
    frame.to_csv(tmp_path / "ways.csv", index=False)
    for sizes in ((), ("--sizes", "4")):
        assert call(trace, *few, "--configurations", tmp_path / "ways.csv", *sizes) == 0
    assert len(list((tmp_path / "out/runs").iterdir())) == 5
    printed = capsys.readouterr().out
    assert (printed.count("1 runs, 0 done before"), printed.count("1 runs, 1 done before")) == (5, 1)


@pytest.mark.parametrize("workers", [1, 2])
def test_what_was_done_before_the_disk_was_full_is_kept(trace, tmp_path, capsys, monkeypatch, workers):
    few = ("--policy", "fifo,sjf", "--seeds", 2, "--workers", workers, "--out", tmp_path / "out")
    written = []

    def once(path, content):
        if written:
            raise DataError(f"{path}: cannot write (No space left on device)")
        written.append(path)
        write_json(path, content)

    with monkeypatch.context() as patch:
        patch.setattr("mfcp.files.write_json", once)
        assert call(trace, *few) == 2
        assert "cannot write" in capsys.readouterr().err
    assert list((tmp_path / "out/runs").iterdir()) == written
    assert call(trace, *few) == 0
    assert "4 runs, 1 done before" in capsys.readouterr().out


def test_over_dask_as_over_processes(trace, tmp_path):
    distributed = pytest.importorskip("distributed")
    few = ("--policy", "fifo,sjf", "--loads", "0.9", "--seeds", 2)
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    ) as cluster:
        assert call(trace, *few, "--scheduler", cluster.scheduler_address, "--out", tmp_path / "dask") == 0
    assert call(trace, *few, "--workers", 1, "--out", tmp_path / "own") == 0
    one, other = (pd.read_csv(tmp_path / name / "sweep.csv") for name in ("dask", "own"))
    assert one.equals(other)
    assert json.loads(next((tmp_path / "own/runs").iterdir()).read_text())["load"] == 0.9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--loads", "0.9"), "a sweep keeps its runs in a folder; name one with --out"),
        (("--loads", "0.9,x", "--out", "o"), "--loads 0.9,x: expected numbers above 0"),
        (("--seeds", 0, "--out", "o"), "--seeds: expected a whole number of at least 1, got 0"),
        (("--seeds", 1, "--workers", -1, "--out", "o"), "--workers: expected a whole number of at least 1"),
        (("--loads", "0", "--out", "o"), "expected numbers above 0 and below 100"),
        (("--seeds", 2, "--out", "o", "--compare"), "of single runs, not of a sweep"),
    ],
)
def test_what_is_no_sweep_is_told(trace, tmp_path, capsys, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert call(trace, "--policy", "fifo", *arguments) == 2
    assert message in capsys.readouterr().err
