"""A cluster behind SSH: a real sshd on loopback, with a key of its own."""

from __future__ import annotations

import getpass
import shutil
import socket
import subprocess
from pathlib import Path

import pytest
from running import until

from mfcp.executors.base import Batch, JobLimits, UnreachableError
from mfcp.executors.slurm import Slurm
from mfcp.executors.spool import Spool

SSHD = shutil.which("sshd", path="/usr/sbin:/sbin:/usr/bin")


@pytest.fixture(scope="module")
def ssh(tmp_path_factory):
    """Arguments that reach this machine through its own sshd."""
    if SSHD is None or shutil.which("ssh-keygen") is None:
        pytest.skip("no sshd is installed (apt-get install openssh-server openssh-client)")
    folder = tmp_path_factory.mktemp("ssh")
    folder.chmod(0o700)
    Path("/run/sshd").mkdir(exist_ok=True)  # where it drops its rights, as root
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    (folder / "authorized").write_bytes((folder / "user.pub").read_bytes())
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    (folder / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/authorized\n"
        f"PidFile {folder}/pid\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n"
        "PermitRootLogin prohibit-password\n"
    )
    with subprocess.Popen([SSHD, "-D", "-e", "-f", folder / "sshd_config"], stderr=subprocess.PIPE) as server:
        key = (folder / "host.pub").read_text().split()[:2]
        (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {' '.join(key)}\n")
        options = [
            "-F", "none", "-p", str(port), "-i", str(folder / "user"), "-o", "BatchMode=yes",
            "-o", "IdentitiesOnly=yes", "-o", f"UserKnownHostsFile={folder}/known_hosts",
        ]  # fmt: skip
        try:
            until(lambda: _listens(port), "sshd listens")
            yield ["ssh", *options, f"{getpass.getuser()}@127.0.0.1"]
        finally:
            server.terminate()


def _listens(port):
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def test_receipts_come_over_ssh(ssh, tmp_path):
    batch = Batch("mfcp-1-1", ['echo "it\'s $HOME"', "exit 4"], JobLimits(5.0))
    spool = Spool(str(tmp_path / "a folder"), ssh, "python3")
    spool.place(batch)
    spool.run("sh", "-c", spool.script(batch.name, "0"))
    assert spool.fence(batch.keys) == ["mfcp-1-1.1"]
    receipts = spool.receipts(batch.keys)
    assert receipts["mfcp-1-1.0"]["end"]["exit_code"] == 0
    assert (tmp_path / "a folder" / "output" / "mfcp-1-1.0.out").read_text().startswith("it's /")


def test_a_host_that_is_not_known_is_not_trusted(ssh, tmp_path):
    strange = [word if "UserKnownHostsFile" not in word else "UserKnownHostsFile=/dev/null" for word in ssh]
    with pytest.raises(UnreachableError, match=r"[Hh]ost key verification failed"):
        Spool(str(tmp_path), strange).run("true")


@pytest.mark.slurm
def test_a_batch_runs_on_a_cluster_behind_ssh(ssh, slurm, tmp_path):
    cluster = Slurm(folder=str(tmp_path / "spool"), conf=str(slurm.conf("alpha")), ssh=tuple(ssh))
    batch = Batch(
        "mfcp-ssh-1", ['echo \'{"step_time_s": 0.5}\' > "$MFCP_REPORT"', "exit 3"], JobLimits(60.0, 100 << 20)
    )
    cluster.release([cluster.submit(batch)])
    until(lambda: all(one.end for one in cluster.watch(batch.keys).values()), "both have ended", 60)
    seen = cluster.watch(batch.keys)
    assert seen["mfcp-ssh-1.0"].end["report"] == {"step_time_s": 0.5}
    assert seen["mfcp-ssh-1.1"].end["exit_code"] == 3
    assert cluster.health().up
