"""The folder between platform and jobs, here and behind a command that reaches another machine."""

from __future__ import annotations

import json
import sys

import pytest

from mfcp.executors.base import Batch, JobLimits, UnreachableError
from mfcp.executors.spool import Spool

BATCH = Batch("mfcp-1-1", ["true", "false"], JobLimits(5.0))


@pytest.fixture
def far(tmp_path):
    """Arguments that stand for ssh: a shell that gets one command line, with its own folder."""
    program = tmp_path / "far"
    program.write_text('#!/bin/sh\ncd / && exec sh -c "$2"\n')
    program.chmod(0o755)
    return [str(program), "user@login"]


@pytest.mark.parametrize("reached", ["here", "far"])
def test_it_places_looks_and_fences(tmp_path, far, reached):
    folder = tmp_path / "a folder; with $signs"
    spool = Spool(str(folder), far if reached == "far" else (), sys.executable)
    assert spool.receipts(BATCH.keys) == {}
    spool.place(BATCH)
    placed = json.loads((folder / "batches" / "mfcp-1-1.json").read_text())["jobs"]
    assert [job["command"] for job in placed] == ["true", "false"]
    spool.run("sh", "-c", spool.script("mfcp-1-1", "0"))
    assert spool.fence(BATCH.keys) == ["mfcp-1-1.1"]
    receipts = spool.receipts(BATCH.keys)
    assert receipts["mfcp-1-1.0"]["end"]["exit_code"] == 0
    assert receipts["mfcp-1-1.1"]["begin"] == {"fenced": True}
    assert receipts["mfcp-1-1.1"]["end"] is None
    spool.forget(0.0)
    assert spool.receipts(BATCH.keys) == {}


def test_receipts_of_a_stranger_s_machine_are_checked(tmp_path):
    spool = Spool(str(tmp_path), python=sys.executable)
    spool.place(BATCH)
    for key, end in {
        "mfcp-1-1.0": '{"exit_code": "0", "wall_s": NaN, "error": 7, "report": [1], "ended_by": "", "extra": 1}',
        "mfcp-1-1.1": "[" * 5000,
    }.items():
        (tmp_path / "claims" / key).write_text("{}")
        (tmp_path / "ends" / key).write_text(end)
    receipts = spool.receipts(BATCH.keys)
    assert receipts["mfcp-1-1.0"]["end"] == {"ended_by": ""}  # no exit code: not a success
    assert receipts["mfcp-1-1.1"]["end"] == {}


def test_what_does_not_answer_is_unreachable(tmp_path):
    with pytest.raises(UnreachableError, match="squeue: no such host"):
        Spool(str(tmp_path), ["sh", "-c", "echo no such host >&2; exit 255"]).run("squeue")
    with pytest.raises(UnreachableError, match=r"squeue: no answer within 0\.2 s"):
        Spool(str(tmp_path), ["sh", "-c", "sleep 9"], timeout_s=0.2).run("squeue")
    with pytest.raises(UnreachableError, match="is it installed"):
        Spool(str(tmp_path)).run("no-such-program")
    (tmp_path / "file").write_text("")
    with pytest.raises(UnreachableError):
        Spool(str(tmp_path / "file" / "x"), python=sys.executable).receipts(["k.0"])
