"""DVC's order, what is stale, failures, the lock, and that nothing outlives its starter. No Prefect here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from running import alive, until, written_pid

from flows import checkout, guard
from mfcp.errors import MfcpError

REPOSITORY = Path(__file__).parents[2]
# A stage that ignores interrupts and has a child of its own that does, too.
STUBBORN = "trap '' INT; sleep 300 & echo $! > child.pid; echo $$ > stage.pid; wait"


def reproduce(root: Path, stage: str, **options: float) -> tuple[str, list[str]]:
    lines: list[str] = []
    return checkout.reproduce(root, stage, log=lines.append, **options), lines


def with_stage(root: Path, cmd: str) -> None:
    (root / "dvc.yaml").write_text(f"stages:\n  stage:\n    cmd: {cmd}\n    deps: [source]\n")


def elsewhere(root: Path, code: str) -> subprocess.Popen[str]:
    """Another Python process that works on the toy checkout."""
    program = f"from pathlib import Path\nfrom flows import checkout\nroot = Path({str(root)!r})\n{code}"
    return subprocess.Popen([sys.executable, "-c", program], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)


def test_stages_come_in_dvcs_own_order_and_files_are_stages_too(toy: Path) -> None:
    (toy / "source.dvc").write_text("outs:\n- {md5: 5bbf5a52328e7439ae6e719dfe712200, path: source, hash: md5}\n")
    (toy / "kept.dvc").write_text("outs:\n- {md5: 5bbf5a52328e7439ae6e719dfe712200, path: kept, hash: md5}\n")
    order = checkout.stages(toy)
    assert sorted(order) == ["first", "last", "middle", "other", "source.dvc"]  # no stage reads what is kept
    assert order[:2] == ["source.dvc", "first"]
    assert order[-1] == "last"


def test_targets_bring_what_they_depend_on_and_nothing_else(toy: Path) -> None:
    assert checkout.stages(toy, ["middle"]) == ["first", "middle"]


def test_the_repositorys_own_pipeline_is_readable() -> None:
    order = checkout.stages(REPOSITORY)
    assert order[:4] == ["ingest", "validate", "featurize", "pretrain"]
    assert set(order[4:]) >= {"evaluate", "report", "release"}
    tuned = [stage for stage in order if stage.startswith("finetune@")]
    assert len(tuned) == len(order) - 7
    assert order.index(tuned[-1]) < order.index("evaluate") < order.index("report")


@pytest.mark.parametrize(
    ("content", "targets", "message"),
    [
        ("stages: {a: {cmd: x, deps: [b], outs: [b]}}", [], "DVC cannot read the pipeline"),
        ("stages: {a: {command: x}}", [], "DVC cannot read the pipeline"),
        ("stages: {a: {cmd: x}}", ["b"], "'b'"),
    ],
)
def test_a_wrong_pipeline_is_a_clear_error(toy: Path, content: str, targets: list[str], message: str) -> None:
    (toy / "dvc.yaml").write_text(content)
    with pytest.raises(MfcpError, match=message):
        checkout.stages(toy, targets)


def test_no_repository_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(MfcpError, match="DVC cannot read the pipeline"):
        checkout.stages(tmp_path)


def test_only_what_is_stale_runs(toy: Path) -> None:
    assert reproduce(toy, "first")[0] == "ran"
    assert reproduce(toy, "middle")[0] == "ran"
    assert reproduce(toy, "first")[0] == "unchanged"
    (toy / "middle").unlink()
    assert reproduce(toy, "middle")[0] == "restored"
    (toy / "source").write_text("two\n")
    assert reproduce(toy, "first")[0] == "ran"
    outcome, lines = reproduce(toy, "middle")
    assert outcome == "ran"
    assert "at work in middle" in lines
    assert (toy / "middle").read_text() == "two\n"


def test_a_failure_carries_the_stages_own_words(toy: Path) -> None:
    with_stage(toy, "echo about to fail; echo 'the disk is full' >&2; exit 7")
    with pytest.raises(checkout.StageError, match=r"(?s)stage 'stage' failed.*the disk is full"):
        reproduce(toy, "stage")


def test_a_stage_that_takes_too_long_ends_with_its_children(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "GRACE_S", 0.3)
    with_stage(toy, STUBBORN)
    with pytest.raises(checkout.StageError, match=r"was ended after 8\.0 s"):
        reproduce(toy, "stage", timeout_s=8.0)
    for name in ("stage.pid", "child.pid"):
        assert not alive(written_pid(toy / name))


def test_a_starter_killed_outright_leaves_nothing_behind(toy: Path) -> None:
    with_stage(toy, STUBBORN)
    starter = elsewhere(
        toy,
        "from flows import guard; guard.GRACE_S = 0.3\n"
        "with checkout.only_one(root, 0): checkout.reproduce(root, 'stage', log=print)",
    )
    pids = [written_pid(toy / name) for name in ("stage.pid", "child.pid")]
    assert all(map(alive, pids))
    starter.kill()
    starter.communicate()
    with checkout.only_one(toy, 0):  # free at once
        until(lambda: not any(map(alive, pids)), "the killed starter's stage ends")
    with_stage(toy, "cat source")
    assert reproduce(toy, "stage")[0] == "ran"  # and DVC's own locks are no obstacle


def test_one_pipeline_per_checkout(toy: Path) -> None:
    holder = elsewhere(toy, "import time\nwith checkout.only_one(root, 0): print('held', flush=True); time.sleep(300)")
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        started = time.monotonic()
        message = f"another pipeline runs here .process {holder.pid}"
        with pytest.raises(MfcpError, match=message), checkout.only_one(toy, 0.5):
            pass
        assert time.monotonic() - started >= 0.5
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.communicate()
    with checkout.only_one(toy, 0):
        pass


def test_a_stage_finds_this_environments_python(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.defpath)
    monkeypatch.setenv("DVC_ROOT", "/nowhere")
    with_stage(toy, """python -c 'import os, sys; print(sys.prefix, os.environ["DVC_ROOT"])'""")
    _, lines = reproduce(toy, "stage")
    assert f"{sys.prefix} {toy}" in lines


def test_a_checkout_that_cannot_be_written_is_told_in_words(tmp_path):
    (tmp_path / ".dvc").write_text("")
    with pytest.raises(MfcpError, match="cannot write"), checkout.only_one(tmp_path, 0.1):
        pass
