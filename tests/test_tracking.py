"""The tracking store: what is logged, how fast, and what a broken store says."""

from __future__ import annotations

import math
import os
import socket
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from mfcp import tracking
from mfcp.errors import MfcpError
from mfcp.tracking import (
    MethodResult,
    MetricPoint,
    SeedResult,
    attach,
    dvc_hashes,
    git_tags,
    log_points,
    log_results,
    methods_address,
    methods_page,
    origin_tags,
    tracking_uri,
)


@pytest.fixture(autouse=True)
def no_outer_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.delenv("DVC_ROOT", raising=False)


def result(setting: str = "A", method: str = "mfcp_ad", seeds: int = 2, **metrics: float) -> MethodResult:
    metrics = metrics or {"regret.mean": 1.5, "regret.std": 0.5, "regret.ci_low": 1.0, "regret.ci_high": 2.0}
    children = [SeedResult(seed, {"regret": 1.0 + seed}, {"train.loss": [3.0, 2.0, 1.0]}) for seed in range(seeds)]
    return MethodResult(setting, method, {"kind": "x", "gradient": {"delta": 0.05}}, metrics, children)


def runs_of(root: Path, experiment: str) -> list:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri(root))
    return list(client.search_runs([client.get_experiment_by_name(experiment).experiment_id]))


def test_parent_per_method_and_child_per_seed(tmp_path: Path) -> None:
    from mlflow import MlflowClient

    figure = tmp_path / "regret.png"
    figure.write_bytes(b"png")
    given = result()
    given = MethodResult(given.setting, given.method, given.params, given.metrics, given.seeds, [figure])
    log_results("paper", [given], tags={"git.commit": "abc", "dvc.features.md5": "f00"}, root=tmp_path)

    runs = {run.info.run_name: run for run in runs_of(tmp_path, "paper")}
    assert set(runs) == {"A/mfcp_ad", "A/mfcp_ad/0", "A/mfcp_ad/1"}
    parent, child = runs["A/mfcp_ad"], runs["A/mfcp_ad/1"]
    assert parent.data.metrics == {"regret.mean": 1.5, "regret.std": 0.5, "regret.ci_low": 1.0, "regret.ci_high": 2.0}
    assert parent.data.params == {"kind": "x", "gradient.delta": "0.05"}
    wanted = {"setting": "A", "method": "mfcp_ad", "git.commit": "abc", "dvc.features.md5": "f00"}
    for run in (parent, child):
        assert wanted.items() <= run.data.tags.items()
        assert run.info.status == "FINISHED"
    assert child.data.tags["mlflow.parentRunId"] == parent.info.run_id
    assert child.data.tags["seed"] == "1"
    assert child.data.metrics == {"regret": 2.0, "train.loss": 1.0}
    client = MlflowClient(tracking_uri(tmp_path))
    curve = client.get_metric_history(child.info.run_id, "train.loss")
    assert [(point.step, point.value) for point in curve] == [(0, 3.0), (1, 2.0), (2, 1.0)]
    assert [item.path for item in client.list_artifacts(parent.info.run_id)] == ["regret.png"]
    assert list((tmp_path / "mlruns/artifacts").rglob("regret.png"))


def test_a_method_is_one_run_at_the_top_with_its_settings_and_seeds_below(tmp_path: Path) -> None:
    from mlflow import MlflowClient

    given = [result(setting, method) for setting in "AB" for method in ("tsm", "mfcp_ad")]
    leading = {"tsm": {"excess_vs_tsm": 1.0}, "mfcp_ad": {"excess_vs_tsm": 0.6, "excess_vs_tsm.p": 0.001}}
    log_results("x", given, tags={"git.commit": "abc"}, methods=leading, root=tmp_path)
    runs = {run.info.run_name: run for run in runs_of(tmp_path, "x")}
    assert len(runs) == 2 + 4 + 8
    top = {name for name, run in runs.items() if "mlflow.parentRunId" not in run.data.tags}
    assert top == {name for name, run in runs.items() if run.data.tags.get("level") == "method"} == set(leading)
    assert {name: runs[name].data.metrics for name in leading} == leading
    assert runs["B/tsm"].data.tags["mlflow.parentRunId"] == runs["tsm"].info.run_id
    assert runs["B/tsm/1"].data.tags["mlflow.parentRunId"] == runs["B/tsm"].info.run_id
    assert runs["B/tsm"].data.metrics["regret.mean"] == 1.5

    where, _, query = methods_page("x", tmp_path).partition("?")
    assert where == f"/#/experiments/{runs['tsm'].info.experiment_id}/runs"
    view = parse_qs(query)
    key = view["orderByKey"][0]
    shown = MlflowClient(tracking_uri(tmp_path)).search_runs(
        [runs["tsm"].info.experiment_id], view["searchFilter"][0], order_by=[f"{key} ASC"]
    )
    assert [run.info.run_name for run in shown] == ["mfcp_ad", "tsm"]
    assert methods_page("other", tmp_path) == "/#/experiments"


def test_the_address_is_that_of_the_server_else_of_make_ui(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_PORT", raising=False)
    assert methods_address("mfcp").startswith("http://127.0.0.1:5000/#/experiments")
    monkeypatch.setenv("MLFLOW_PORT", "5001")
    assert methods_address("mfcp").startswith("http://127.0.0.1:5001/#/experiments")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://tracker:80/")
    assert methods_address("mfcp").startswith("http://tracker:80/#/experiments")


def test_a_report_lies_beside_the_newest_run_of_every_method(tmp_path: Path) -> None:
    from mlflow import MlflowClient

    report = tmp_path / "report.html"
    report.write_text("<p>one</p>")
    assert attach("mfcp", report, root=tmp_path) == 0
    leading = {"tsm": {"excess_vs_tsm": 1.0}, "ours": {"excess_vs_tsm": 0.4}}
    for _ in range(2):
        log_results("mfcp", [result("A", "tsm"), result("A", "ours")], tags={}, methods=leading, root=tmp_path)
    assert attach("mfcp", report, root=tmp_path) == 2
    client = MlflowClient(tracking_uri(tmp_path))
    tops = [run for run in runs_of(tmp_path, "mfcp") if run.data.tags.get("level") == "method"]
    having = [run for run in tops if [file.path for file in client.list_artifacts(run.info.run_id)] == ["report.html"]]
    assert sorted(run.data.tags["method"] for run in having) == ["ours", "tsm"]
    assert min(run.info.start_time for run in having) >= sorted(run.info.start_time for run in tops)[1]


@pytest.mark.parametrize("content", [b"", b"no database at all"])
def test_a_store_that_cannot_be_read_has_no_page_of_methods(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "mlruns").mkdir()
    (tmp_path / tracking.STORE).write_bytes(content)
    assert methods_page("x", tmp_path) == "/#/experiments"
    assert (tmp_path / tracking.STORE).read_bytes() == content


def test_values_that_are_not_finite_are_counted_not_logged(tmp_path: Path) -> None:
    log_results("x", [result(seeds=0, good=1.0, bad=math.nan, worse=math.inf)], tags={}, root=tmp_path)
    (run,) = runs_of(tmp_path, "x")
    assert run.data.metrics == {"good": 1.0}
    assert run.data.tags["metrics.skipped"] == "2"


def test_a_long_curve_takes_several_batches(tmp_path: Path) -> None:
    curve = [float(step) for step in range(2 * tracking.BATCH + 5)]
    seeds = [SeedResult(0, {}, {"train.loss": curve})]
    log_results("x", [MethodResult("A", "tsm", {}, {}, seeds)], tags={}, root=tmp_path)
    with sqlite3.connect(tmp_path / tracking.STORE) as connection:
        rows = connection.execute("select step from metrics where key = 'train.loss' order by step").fetchall()
    connection.close()
    assert rows == [(step,) for step in range(len(curve))]


def test_a_full_study_is_logged_in_seconds(tmp_path: Path) -> None:
    """8 methods × 3 settings × 5 seeds with 20 metrics and three curves of 60 steps each."""
    curves = {f"curve{number}": [float(step) for step in range(60)] for number in range(3)}
    metrics = {f"metric{number}": float(number) for number in range(20)}
    seeds = [SeedResult(seed, metrics, curves) for seed in range(5)]
    results = [MethodResult(setting, f"m{m}", {"kind": "x"}, metrics, seeds) for setting in "ABC" for m in range(8)]
    log_results("warm-up", [], tags={}, root=tmp_path)  # imports and tables are paid once, whatever is logged
    started = time.process_time()
    log_results("study", results, tags={"git.commit": "abc"}, root=tmp_path)
    assert time.process_time() - started < 15  # 4 s on an idle core; one request per metric would take minutes
    assert len(runs_of(tmp_path, "study")) == 8 * 3 * 6


def test_a_deleted_experiment_comes_back(tmp_path: Path) -> None:
    from mlflow import MlflowClient

    log_results("x", [result(seeds=0)], tags={}, root=tmp_path)
    client = MlflowClient(tracking_uri(tmp_path))
    client.delete_experiment(client.get_experiment_by_name("x").experiment_id)
    log_results("x", [result(seeds=0, method="tsm")], tags={}, root=tmp_path)
    assert "A/tsm" in {run.info.run_name for run in runs_of(tmp_path, "x")}


def test_a_run_that_fails_half_way_is_marked_failed(tmp_path: Path) -> None:
    missing = MethodResult("A", "tsm", {}, {}, [], [tmp_path / "absent.png"])
    with pytest.raises(MfcpError, match=r"absent\.png"):
        log_results("x", [missing], tags={}, root=tmp_path)
    (run,) = runs_of(tmp_path, "x")
    assert run.info.status == "FAILED"


def test_the_store_is_the_checkouts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dvc.yaml").write_text("stages: {}\n")
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")
    own = f"sqlite:///{tmp_path.resolve()}/mlruns/mlflow.db"
    assert tracking_uri() == own
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))  # `dvc exp run --temp` runs in a copy that is deleted
    assert tracking_uri(tmp_path / "a") == own
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")
    assert tracking_uri() == "http://127.0.0.1:1"


def test_a_locked_store_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracking, "LOCK_WAIT_S", 0.1)
    log_results("x", [], tags={}, root=tmp_path)
    holder = sqlite3.connect(tmp_path / tracking.STORE)
    try:
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.raises(MfcpError, match=r"mlflow\.db: cannot log there .*locked.*MLFLOW_TRACKING_URI"):
            log_results("x", [result()], tags={}, root=tmp_path)
    finally:
        holder.close()
    assert runs_of(tmp_path, "x") == []


@pytest.mark.parametrize("kind", ["folder is a file", "not a database"])
def test_a_store_that_cannot_be_opened_says_so_at_once(tmp_path: Path, kind: str) -> None:
    if kind == "folder is a file":
        (tmp_path / "mlruns").write_text("")
    else:
        (tmp_path / "mlruns").mkdir()
        (tmp_path / tracking.STORE).write_text("no database at all, but more than a header's worth of text" * 40)
    started = time.monotonic()
    with pytest.raises(MfcpError, match=r"mlflow\.db: cannot log there"):
        log_results("x", [result()], tags={}, root=tmp_path)
    assert time.monotonic() - started < 5  # MLflow's own retries take over 100 s


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_store_says_so(tmp_path: Path) -> None:
    log_results("x", [], tags={}, root=tmp_path)
    (tmp_path / tracking.STORE).chmod(0o400)
    with pytest.raises(MfcpError, match="cannot log there"):
        log_results("x", [result()], tags={}, root=tmp_path)


def test_a_server_out_of_reach_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        uri = f"http://127.0.0.1:{free.getsockname()[1]}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(MfcpError, match=f"{uri}: cannot log there"):
        log_results("x", [result()], tags={}, root=tmp_path)


def test_programming_errors_keep_their_own_name(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        log_results("x", [MethodResult("A", "tsm", {}, {"regret": "high"}, [])], tags={}, root=tmp_path)  # type: ignore[dict-item]


def test_git_tags(tmp_path: Path) -> None:
    assert git_tags(tmp_path) == {}
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    subprocess.run(["git", *identity, "commit", "-q", "--allow-empty", "-m", "x"], cwd=tmp_path, check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert git_tags(tmp_path) == {"git.commit": head.strip(), "git.dirty": "false"}
    (tmp_path / "dvc.lock").write_text("")
    assert git_tags(tmp_path)["git.dirty"] == "false"
    (tmp_path / "new").write_text("")
    assert git_tags(tmp_path)["git.dirty"] == "true"


def test_what_asked_for_a_run_is_a_tag(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MFCP_FLOW_RUN", "DVC_EXP_NAME"):
        monkeypatch.delenv(name, raising=False)
    assert origin_tags() == {}
    monkeypatch.setenv("MFCP_FLOW_RUN", "http://127.0.0.1:4200/runs/flow-run/1")
    monkeypatch.setenv("DVC_EXP_NAME", "bleak-moth")
    assert origin_tags() == {"prefect.flow_run": "http://127.0.0.1:4200/runs/flow-run/1", "dvc.exp": "bleak-moth"}


def test_dvc_hashes(tmp_path: Path) -> None:
    assert dvc_hashes(tmp_path, ["data/features"]) == {}
    (tmp_path / "dvc.lock").write_text(
        "schema: '2.0'\nstages:\n  featurize:\n    cmd: x\n    outs:\n"
        "    - {path: data/features, hash: md5, md5: 0a1b.dir, size: 3}\n    - {path: data/other.json, md5: ff}\n"
    )
    assert dvc_hashes(tmp_path, ["data/features", "data/other.json", "data/absent"]) == {
        "dvc.features.md5": "0a1b.dir",
        "dvc.other.md5": "ff",
    }
    (tmp_path / "dvc.lock").write_text("stages: [1, 2]\n")
    with pytest.raises(MfcpError, match=r"dvc\.lock: not a lock file of DVC"):
        dvc_hashes(tmp_path, ["data/features"])


def test_importing_tracking_does_not_import_mlflow() -> None:
    code = "import sys, mfcp.tracking; assert 'mlflow' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_points_are_added_to_one_run_and_the_same_one_twice_is_kept_once(tmp_path: Path) -> None:
    from mlflow import MlflowClient

    many = [MetricPoint("round.gap", float(step), step, 1e9 + step) for step in range(tracking.BATCH + 3)]
    log_points("platform", "2026-01", many, tags={"event.x": "a" * 9000}, root=tmp_path)
    log_points("platform", "2026-01", [*many[-2:], MetricPoint("round.gap", 7.0, 9000, 1e9)], tags={}, root=tmp_path)
    log_points("platform", "2026-02", many[:1], tags={}, root=tmp_path)
    runs = {run.info.run_name: run for run in runs_of(tmp_path, "platform")}
    assert set(runs) == {"2026-01", "2026-02"}
    client = MlflowClient(tracking_uri(tmp_path))
    kept = client.get_metric_history(runs["2026-01"].info.run_id, "round.gap")
    assert sorted(point.step for point in kept) == [*range(tracking.BATCH + 3), 9000]
    assert {point.timestamp for point in kept if point.step == 1} == {1_000_000_001_000}
    assert len(runs["2026-01"].data.tags["event.x"]) == tracking.TAG_LENGTH
