"""What Slurm prints, read; and real clusters of it on loopback, where its packages are."""

from __future__ import annotations

import time

import pytest
from running import until

from flows.slurm import OwnSlurm
from mfcp.executors.base import Account, Batch, JobLimits, RefusedError, UnreachableError
from mfcp.executors.slurm import Slurm, accounts, seconds_of

SACCT = """\
7_0|mfcp-ab-1|COMPLETED|0:0|17||billing=1,cpu=1,mem=2000M,node=1
7_0.batch|batch|COMPLETED|0:0|17|748848K|cpu=1,mem=2000M,node=1
7_1|mfcp-ab-1|FAILED|0:9|18||billing=1,cpu=1,mem=2000M,node=1
7_1.batch|batch|CANCELLED by 0|0:9|18|2311372K|cpu=1,mem=2000M,node=1
7_2|mfcp-ab-1|FAILED|0:9|18||billing=1,cpu=1,mem=2000M,node=1
7_2.batch|batch|CANCELLED by 0|0:9|18|1200M|cpu=1,mem=2000M,node=1
7_3|mfcp-ab-1|CANCELLED by 0|0:0|0||
7_4|mfcp-ab-1|RUNNING|0:0|5||cpu=1,mem=2000M
7_5|mfcp-ab-1|TIMEOUT|0:0|68||cpu=1,mem=2000M
7_[6-9]|mfcp-ab-1|CANCELLED by 0|0:0|0||
12|interactive|COMPLETED|0:0|3||cpu=1,mem=2000M
"""


def test_books_are_read():
    assert dict(accounts(SACCT.splitlines())) == {
        "mfcp-ab-1.0": Account("succeeded", "COMPLETED, exit code 0:0", 17.0),
        "mfcp-ab-1.1": Account("oom", "FAILED, exit code 0:9", 18.0),
        "mfcp-ab-1.2": Account("failed", "FAILED, exit code 0:9", 18.0),
        "mfcp-ab-1.3": Account("cancelled", "CANCELLED by 0, exit code 0:0", None),
        "mfcp-ab-1.5": Account("timeout", "TIMEOUT, exit code 0:0", 68.0),
    }


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("03:04", 184), ("01:02:03", 3723), ("1-00:00:01", 86401), ("0:00", 0), ("UNLIMITED", 0), ("INVALID", 0), ("", 0)],
)
def test_times_are_read(text, seconds):
    assert seconds_of(text) == seconds


@pytest.fixture
def alpha(slurm: OwnSlurm, tmp_path):
    return Slurm(folder=str(tmp_path / "spool"), conf=str(slurm.conf("alpha")))


@pytest.mark.slurm
def test_a_batch_is_held_released_and_accounted_for(alpha):
    batch = Batch("mfcp-t1-1", ["sleep 0.2", "exit 3", "sleep 67"], JobLimits(90.0, 200 << 20))
    job = alpha.submit(batch)
    seen = alpha.watch([*batch.keys, "mfcp-none.0"])
    assert [seen[key].stage for key in [*batch.keys, "mfcp-none.0"]] == ["held"] * 3 + ["unknown"]
    assert {seen[key].jobs for key in batch.keys} == {(job,)}
    alpha.release([job])
    until(lambda: all(one.begin for one in alpha.watch(batch.keys).values()), "what was asked for", 30)
    assert alpha.cancel({"mfcp-t1-1.2": (job,)}) == []
    until(lambda: all(one.stage == "over" for one in alpha.watch(batch.keys).values()), "what was asked for", 30)
    seen = alpha.watch(batch.keys)
    assert [seen[key].end.get("exit_code") for key in batch.keys[:2]] == [0, 3]
    assert seen["mfcp-t1-1.2"].end["ended_by"] in ("stopped", "terminated")
    until(lambda: len(alpha.collect(batch.keys, time.time() - 60)) == 3, "what was asked for", 30)
    books = alpha.collect(batch.keys, time.time() - 60)
    assert [books[key].status for key in batch.keys] == ["succeeded", "failed", "cancelled"]


@pytest.mark.slurm
def test_what_never_runs_is_refused_and_a_controller_that_is_away_is_unreachable(slurm, alpha, tmp_path):
    with pytest.raises(RefusedError, match="configuration is not available"):
        alpha.submit(Batch("mfcp-t2-1", ["true"], JobLimits(5.0, 10**15)))
    with pytest.raises(RefusedError, match="configuration is not available"):
        alpha.submit(Batch("mfcp-t2-2", ["true"], JobLimits(5.0, gpus=99)))
    with pytest.raises(RefusedError, match="invalid partition"):
        Slurm(folder=str(tmp_path / "s"), conf=str(slurm.conf("alpha")), options=("--partition=no",)).submit(
            Batch("mfcp-t2-3", ["true"], JobLimits(5.0))
        )
    endless = alpha.submit(batch := Batch("mfcp-t2-4", ["true"], JobLimits(1e7)))
    alpha.release([endless])
    until(lambda: alpha.watch(batch.keys)["mfcp-t2-4.0"].why == "pending: PartitionTimeLimit", "what was asked for", 30)
    assert alpha.watch(batch.keys)["mfcp-t2-4.0"].stage == "over"
    assert alpha.cancel({"mfcp-t2-4.0": (endless,)}) == ["mfcp-t2-4.0"]
    slurm.kill("slurmctld-beta")
    try:
        beta = Slurm(folder=str(tmp_path / "b"), conf=str(slurm.conf("beta")), timeout_s=1.0)
        for ask in (beta.health, lambda: beta.watch(["k.0"]), lambda: beta.submit(Batch("m", ["x"], JobLimits(5.0)))):
            with pytest.raises(UnreachableError):
                ask()
    finally:
        slurm.start("slurmctld-beta")


@pytest.mark.slurm
def test_a_drained_cluster_and_the_jobs_of_others_are_seen(slurm, alpha):
    assert alpha.health().up
    slurm.run("alpha", "sbatch", "--wrap", "sleep 1", "--time=10", "--output=/dev/null")
    assert 100 < alpha.health().others_s <= 600
    slurm.run("alpha", "scontrol", "update", "nodename=alpha1", "state=drain", "reason=new cooling")
    try:
        health = alpha.health()
        assert not health.up
        assert "new cooling" in health.why
    finally:
        slurm.run("alpha", "scontrol", "update", "nodename=alpha1", "state=resume")
    until(lambda: alpha.health().up and not alpha.health().others_s, "what was asked for", 30)
