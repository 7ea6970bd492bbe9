"""What runs beside a task: one start of an attempt, its limits, its receipts, and nothing that outlives it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from running import until

from mfcp.executors import supervise

NAP = f"60.{os.getpid()}"  # of this process alone: others run the same tests
PROGRAM = [sys.executable, "-I", "-S", supervise.__file__]


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    supervise.make(tmp_path)
    return tmp_path


def place(spool: Path, *commands: str, **limits: object) -> None:
    supervise.place(spool, "b", {"jobs": [{"command": command, **limits} for command in commands]})


def start(spool: Path, number: int = 0) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*PROGRAM, "run", str(spool), "b", str(number)])


def end_of(spool: Path, number: int = 0) -> dict:
    key = f"b.{number}"
    return supervise.receipts(spool, [key])[key]["end"]


def alive(marker: str) -> list[int]:
    """Processes with this word in their command line."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if marker.encode() in (entry / "cmdline").read_bytes() and int(entry.name) != os.getpid():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_it_writes_how_a_command_ended(spool):
    place(spool, "echo '{\"step_time_s\": 0.5}' > $MFCP_REPORT; echo out", "echo no luck >&2; exit 3", "kill -9 $$")
    assert [start(spool, number).wait(20) for number in range(3)] == [0, 3, 1]
    good, bad, killed = (end_of(spool, number) for number in range(3))
    assert (good["exit_code"], good["ended_by"], good["error"], good["report"]) == (0, "", "", {"step_time_s": 0.5})
    assert 0 < good["wall_s"] < 5
    assert good["peak_bytes"] > 100_000
    assert (bad["exit_code"], bad["error"]) == (3, "no luck")
    assert (killed["exit_code"], killed["signal"]) == (None, "SIGKILL")
    assert (spool / "output" / "b.0.out").read_text() == "out\n"


def test_an_attempt_starts_once_however_often_it_is_started(spool):
    place(spool, "echo x >> $PWD/ledger; sleep 0.3")
    jobs = [subprocess.Popen([*PROGRAM, "run", str(spool), "b", "0"], cwd=spool) for _ in range(8)]
    assert sorted(job.wait(20) for job in jobs) == [0] + [supervise.CLAIMED] * 7
    assert (spool / "ledger").read_text() == "x\n"


def test_an_attempt_that_was_given_up_never_starts(spool):
    place(spool, "touch $PWD/started")
    assert supervise.fence(spool, ["b.0"]) == ["b.0"]
    assert supervise.fence(spool, ["b.0"]) == ["b.0"]  # who asks again is told the same
    assert start(spool).wait(20) == supervise.CLAIMED
    assert not (spool / "started").exists()
    assert supervise.receipts(spool, ["b.0", "b.1"])["b.0"]["begin"] == {"fenced": True}


@pytest.mark.parametrize(
    ("command", "limits", "why"),
    [
        (f"sleep {NAP}", {"seconds": 0.5}, "time"),
        (f"trap '' TERM; sleep {NAP} & wait; sleep {NAP}", {"seconds": 0.5}, "time"),
        ("python3 -c 'x = bytearray(300 << 20); import time; time.sleep(60)'", {"memory_bytes": 100 << 20}, "memory"),
    ],
    ids=("long", "deaf", "large"),
)
def test_limits_hold_and_are_told_apart(spool, command, limits, why):
    place(spool, command, **limits)
    begin = time.monotonic()
    assert start(spool).wait(20) == 1
    assert time.monotonic() - begin < 8
    assert end_of(spool)["ended_by"] == why
    assert not alive(f"sleep\x00{NAP}")


def test_a_request_and_a_signal_end_it(spool):
    place(spool, f"sleep {NAP}", f"sleep {NAP}")
    first, second = start(spool, 0), start(spool, 1)
    until(lambda: len(supervise.receipts(spool, ["b.0", "b.1"])) == 2, "what was asked for", 10)
    assert supervise.fence(spool, ["b.0"]) == []
    second.terminate()
    assert (first.wait(20), second.wait(20)) == (1, 1)
    assert [end_of(spool, number)["ended_by"] for number in range(2)] == ["stopped", "terminated"]
    assert not alive(f"sleep\x00{NAP}")


def test_nothing_outlives_a_supervisor_that_is_killed(spool):
    place(spool, f"sleep {NAP} & sleep {NAP}")
    job = start(spool)
    until(lambda: len(alive(f"sleep\x00{NAP}")) == 2, "what was asked for", 10)
    job.kill()
    job.wait()
    until(lambda: not alive(f"sleep\x00{NAP}"), "what was asked for", 10)
    assert end_of(spool) is None


def test_what_a_command_leaves_behind_ends_with_it(spool):
    place(spool, f"sleep {NAP} & exit 0")
    assert start(spool).wait(20) == 0
    until(lambda: not alive(f"sleep\x00{NAP}"), "what was asked for", 10)


def test_it_shows_that_it_lives(spool):
    place(spool, "sleep 2.5")
    job = start(spool)
    until(lambda: supervise.receipts(spool, ["b.0"]), "what was asked for", 10)
    time.sleep(1.8)
    assert supervise.receipts(spool, ["b.0"])["b.0"]["silent_s"] < 1.5
    assert job.wait(20) == 0
    time.sleep(0.3)
    assert supervise.receipts(spool, ["b.0"])["b.0"]["silent_s"] >= 0.3


@pytest.mark.slow
def test_a_command_whose_supervisor_cannot_show_that_it_lives_is_ended(spool):
    place(spool, f"sleep {NAP}")
    job = start(spool)
    until(lambda: alive(f"sleep\x00{NAP}"), "what was asked for", 10)
    (spool / "claims" / "b.0").unlink()  # as where a shared folder is gone
    begin = time.monotonic()
    until(lambda: not alive(f"sleep\x00{NAP}"), supervise.LEASE_S)
    assert time.monotonic() - begin < supervise.LEASE_S
    assert job.wait(20) == 1


def test_a_suspended_one_ends_when_it_wakes_after_it_was_given_up(spool):
    place(spool, f"sleep {NAP}")
    job = start(spool)
    until(lambda: alive(f"sleep\x00{NAP}"), "what was asked for", 10)
    job.send_signal(signal.SIGSTOP)
    supervise.fence(spool, ["b.0"])
    time.sleep(0.5)
    job.send_signal(signal.SIGCONT)
    assert job.wait(20) == 1
    assert not alive(f"sleep\x00{NAP}")


def test_reports_that_are_none_are_left_out(spool):
    place(spool, "echo '{' > $MFCP_REPORT", f"head -c {supervise.REPORT_BYTES + 1} /dev/zero > $MFCP_REPORT", "true")
    for number in range(3):
        assert start(spool, number).wait(20) == 0
        assert end_of(spool, number)["report"] is None


def test_old_batches_are_forgotten_whole(spool):
    place(spool, "true")
    start(spool).wait(20)
    supervise.forget(spool, 3600.0)
    assert end_of(spool)
    supervise.forget(spool, 0.0)
    assert [path for folder in supervise.FOLDERS for path in (spool / folder).iterdir()] == []


def test_it_answers_on_standard_input(spool):
    def ask(what, given):
        request = json.dumps({"do": what, "with": given})
        done = subprocess.run([*PROGRAM, "ask", str(spool)], input=request, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    assert ask("place", {"batch": "b", "content": {"jobs": [{"command": "true"}]}}) is None
    assert ask("receipts", ["b.0"]) == {}
    assert ask("fence", ["b.0"]) == ["b.0"]
    assert ask("receipts", ["b.0"])["b.0"]["begin"] == {"fenced": True}
    assert ask("forget", 0.0) is None
