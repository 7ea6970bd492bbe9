"""What is simulated: nodes, types of accelerators, and what a release believes."""

import json

import numpy as np
import pandas as pd
import pytest
from platform_log import small_log, small_release

from mfcp.cli import main
from mfcp.release.model import Release


def call(*arguments):
    with pytest.raises(SystemExit) as end:
        main(["simulate", *map(str, arguments)])
    return end.value.code


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
