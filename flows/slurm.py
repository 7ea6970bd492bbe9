"""Slurm clusters of one's own on loopback, in one folder: for `make platform CLUSTERS=slurm`, tests and benchmarks.

Neither systemd nor cgroups are needed, nor root once Debian's packages are there. Jobs run as the user who starts them.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

from flows import service
from mfcp.border.json_text import read_json
from mfcp.errors import MfcpError
from mfcp.files import write_json

PACKAGES = "slurmctld slurmd slurmdbd slurm-client munge mariadb-server slurm-wlm-basic-plugins slurm-wlm-mysql-plugin"
INSTALL = f"apt-get install -y --no-install-recommends {PACKAGES}"
_PROGRAMS = ("munged", "mariadbd", "mariadb-install-db", "slurmdbd", "slurmctld", "slurmd", "sbatch", "sacct")
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
_START_S = 180.0  # of a daemon; on a busy machine some take more than a minute
_UP = {"idle", "mixed", "allocated", "completing"}

_CONTROLLER = Template("""\
ClusterName=$name
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$controller
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
AuthInfo=socket=$root/munge.socket
CredType=cred/munge
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation=$own/state
SlurmdSpoolDir=$own/spool-%n
SlurmctldPidFile=$own/slurmctld.pid
SlurmdPidFile=$own/slurmd-%n.pid
SlurmctldLogFile=$own/slurmctld.log
SlurmdLogFile=$own/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,bf_interval=5
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=$accounting
AccountingStoragePass=$root/munge.socket
AccountingStorageTRES=gres/gpu
GresTypes=gpu
MailProg=/bin/true
MaxArraySize=1001
MaxJobCount=20000
SlurmdParameters=config_overrides
JobRequeue=0
ReturnToService=2
SlurmctldTimeout=10
SlurmdTimeout=10
InactiveLimit=0
KillWait=2
OverTimeLimit=0
MinJobAge=300
DefMemPerCPU=1000
TmpFS=$own
$nodes
PartitionName=main Nodes=ALL Default=YES MaxTime=1440 State=UP
""")
_ACCOUNTING = Template("""\
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort=$accounting
CommunicationParameters=NoInAddrAny
SlurmUser=$user
AuthType=auth/munge
AuthInfo=socket=$root/munge.socket
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=$database
StorageUser=slurm
StoragePass=$password
StorageLoc=slurm_acct
PidFile=$root/slurmdbd.pid
LogFile=$root/slurmdbd.log
""")


@dataclass(frozen=True)
class OwnCluster:
    """One of them.

    Attributes:
        name: ClusterName.
        nodes: machines that it believes to have.
        cpus: of each.
        memory_mib: of each.
        gpus: that each believes to have.
    """

    name: str
    nodes: int = 1
    cpus: int = 1
    memory_mib: int = 4000
    gpus: int = 0


def missing() -> str:
    """What has to be installed first, in words; empty where nothing has."""
    absent = [program for program in _PROGRAMS if shutil.which(program, path=_PATH) is None]
    if not absent:
        return ""
    return f"Slurm is not installed here ({', '.join(absent)} not found); on Debian, as root: {INSTALL}"


class OwnSlurm:
    """The clusters' daemons; a context that starts them and ends them, with all jobs.

    Args:
        root: folder of everything; a second start goes on with the state in it.
        clusters: which; the same ones each time.

    Raises:
        MfcpError: the packages are missing, or a daemon does not start; with what it said.
    """

    def __init__(self, root: Path, clusters: Sequence[OwnCluster]) -> None:
        if why := missing():
            raise MfcpError(why)
        self.root, self.clusters = Path(root).resolve(), {cluster.name: cluster for cluster in clusters}
        self.user, self.host = pwd.getpwuid(os.getuid()).pw_name, socket.gethostname().split(".")[0]
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> OwnSlurm:
        try:
            self._configure()
            self.start("munged", "mariadbd", "slurmdbd")
            self.start(*(f"slurmctld-{name}" for name in self.clusters))
            self.start(*self.nodes())
            for name in self.clusters:
                self._wait(f"slurmctld-{name}", lambda name=name: self.node_states(name) <= _UP)  # type: ignore[misc]
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for name in self.clusters:
            with contextlib.suppress(subprocess.SubprocessError):
                self.run(name, "scancel", "--user", self.user, check=False)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and any(self.stepds(job=None)):
            time.sleep(0.1)
        self.stop()

    def nodes(self, cluster: str | None = None) -> list[str]:
        """Names of the nodes' daemons, of one cluster or all."""
        return [
            f"slurmd-{name}{number}"
            for name, own in self.clusters.items()
            if cluster in (None, name)
            for number in range(1, own.nodes + 1)
        ]

    def conf(self, cluster: str) -> Path:
        """SLURM_CONF of a cluster."""
        return self.root / cluster / "slurm.conf"

    def environment(self, cluster: str = "") -> dict[str, str]:
        """Variables under which commands speak to a cluster."""
        conf = self.conf(cluster) if cluster else self.root / "slurm.conf"
        return {**os.environ, "PATH": _PATH, "SLURM_CONF": str(conf)}

    def run(self, cluster: str, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """A command of Slurm's."""
        return subprocess.run(
            command, env=self.environment(cluster), text=True, capture_output=True, check=check, timeout=60
        )

    def node_states(self, cluster: str) -> set[str]:
        """States of a cluster's nodes; of no state where the controller does not answer."""
        told = self.run(cluster, "sinfo", "-h", "-N", "-o", "%T", check=False)
        return set(told.stdout.split()) if told.returncode == 0 and told.stdout.strip() else {"unknown"}

    def start(self, *names: str) -> None:
        """Start daemons by name (`munged`, `mariadbd`, `slurmdbd`, `slurmctld-C`, `slurmd-C1`), and wait for each.

        One that runs is left alone: it may have been started again while another was waited for.
        """
        for name in names:
            if name not in self.processes or self.processes[name].poll() is not None:
                self._spawn(name)
        for name in names:
            self._wait(name, self._ready(name))

    def kill(self, name: str, how: signal.Signals = signal.SIGKILL) -> None:
        """End a daemon, by default without warning."""
        process = self.processes.pop(name)
        process.send_signal(how)
        process.wait()

    def stepds(self, job: str | None = None) -> Iterator[int]:
        """Processes of step daemons of these clusters, of a job or all."""
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (entry / "comm").read_text().strip() != "slurmstepd":
                    continue
                title = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                used = [os.readlink(descriptor) for descriptor in (entry / "fd").iterdir()]
                if any(str(self.root) in path for path in used) and (job is None or f"[{job}." in title):
                    yield int(entry.name)

    def stop(self) -> None:
        """End all daemons, the last started first."""
        for process in reversed(self.processes.values()):
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

    def _configure(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        self.root.chmod(0o755)
        kept = self.root / "own.json"
        if not kept.exists():
            write_json(kept, {"ports": self._free_ports(), "password": secrets.token_hex(16)})
        content = read_json(kept)
        self.ports: Mapping[str, int] = content["ports"]
        key = self.root / "munge.key"
        if not key.exists():
            key.touch(0o600)
            key.write_bytes(secrets.token_bytes(128))
        common = {
            "root": self.root, "user": self.user, "host": self.host, "accounting": self.ports["slurmdbd"],
            "database": self.ports["mariadbd"], "password": content["password"],
        }  # fmt: skip
        self._password = str(content["password"])
        accounting = self.root / "slurmdbd.conf"  # read from beside SLURM_CONF, and only if nobody else can read it
        accounting.touch(0o600)
        accounting.write_text(_ACCOUNTING.substitute(common))
        none = {"name": "none", "own": self.root, "controller": 1, "nodes": "NodeName=none"}
        (self.root / "slurm.conf").write_text(_CONTROLLER.substitute(common, **none))
        for name, cluster in self.clusters.items():
            own = self.root / name
            (own / "state").mkdir(parents=True, exist_ok=True)
            gres = f" Gres=gpu:{cluster.gpus}" if cluster.gpus else ""
            lines = []
            for number in range(1, cluster.nodes + 1):
                (own / f"spool-{name}{number}").mkdir(exist_ok=True)
                lines.append(
                    f"NodeName={name}{number} NodeHostname={self.host} NodeAddr=127.0.0.1 "
                    f"Port={self.ports[f'slurmd-{name}{number}']} CPUs={cluster.cpus} "
                    f"RealMemory={cluster.memory_mib}{gres} State=UNKNOWN"
                )
            told = {"name": name, "own": own, "controller": self.ports[f"slurmctld-{name}"], "nodes": "\n".join(lines)}
            self.conf(name).write_text(_CONTROLLER.substitute(common, **told))
            fake = "".join("Name=gpu File=/dev/null\n" for _ in range(cluster.gpus))
            (own / "gres.conf").write_text(fake)

    def _free_ports(self) -> dict[str, int]:
        names = ["mariadbd", "slurmdbd", *(f"slurmctld-{name}" for name in self.clusters), *self.nodes()]
        return dict(zip(names, service.free_ports(len(names)), strict=True))

    def _spawn(self, name: str) -> None:
        kind, _, which = name.partition("-")
        cluster = next((own for own in self.clusters if which.startswith(own)), "")
        commands: dict[str, Callable[[], list[str]]] = {
            "munged": self._munged,
            "mariadbd": self._mariadbd,
            "slurmdbd": lambda: ["slurmdbd", "-D"],
            "slurmctld": lambda: ["slurmctld", "-D"],
            "slurmd": lambda: ["slurmd", "-D", "-N", which],
        }
        with (self.root / f"{name}.out").open("ab") as output:
            self.processes[name] = subprocess.Popen(
                commands[kind](), stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                env=self.environment(cluster), cwd=self.root, start_new_session=True,
            )  # fmt: skip

    def _munged(self) -> list[str]:
        root = self.root
        files = {"key": "key", "socket": "socket", "pid": "pid", "log": "log", "seed": "seed"}
        return [
            "munged", "--foreground", "--force", "--num-threads=2",
            *(f"--{name}{'' if name == 'socket' else '-file'}={root}/munge.{end}" for name, end in files.items()),
        ]  # fmt: skip

    def _mariadbd(self) -> list[str]:
        root, data = self.root, self.root / "mysql"
        if not (data / "mysql").exists():
            made = subprocess.run(
                ["mariadb-install-db", "--no-defaults", f"--datadir={data}", f"--user={self.user}",
                 "--auth-root-authentication-method=socket", "--skip-test-db"],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, "PATH": _PATH},
            )  # fmt: skip
            if made.returncode:
                raise MfcpError(f"mariadb-install-db ended with {made.returncode}; it said: {made.stdout[-2000:]}")
        grants = [
            f"{verb} slurm@'{host}' IDENTIFIED BY '{self._password}';" if verb.startswith(("CREATE", "ALTER"))
            else f"{verb} slurm@'{host}';"
            for host in ("127.0.0.1", "localhost")
            for verb in ("CREATE USER IF NOT EXISTS", "GRANT ALL ON slurm_acct.* TO")
        ]  # fmt: skip
        init = root / "init.sql"
        init.touch(0o600)
        init.write_text("\n".join(["CREATE DATABASE IF NOT EXISTS slurm_acct;", *grants, ""]))  # one a line: its rule
        return [
            "mariadbd", "--no-defaults", f"--datadir={data}", f"--user={self.user}", f"--socket={root}/mysql.socket",
            f"--port={self.ports['mariadbd']}", "--bind-address=127.0.0.1", f"--pid-file={root}/mariadbd.pid",
            f"--init-file={init}", "--innodb-buffer-pool-size=64M", "--innodb-log-file-size=16M",
            "--innodb-lock-wait-timeout=900", "--performance-schema=OFF", "--innodb-flush-log-at-trx-commit=2",
        ]  # fmt: skip

    def _ready(self, name: str) -> Callable[[], bool]:
        kind, _, which = name.partition("-")
        if kind == "munged":
            return lambda: (self.root / "munge.socket").exists()
        if kind == "slurmctld":
            return lambda: "is UP" in self.run(which, "scontrol", "ping", check=False).stdout
        return lambda: _listens(self.ports[name])

    def _wait(self, name: str, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _START_S
        while not ready():
            if time.monotonic() < deadline - 1:
                self._start_again()
            process = self.processes[name]
            if process.poll() is not None or time.monotonic() > deadline:
                said = (self.root / f"{name}.out").read_text(errors="replace")[-1000:].strip()
                state = "has ended" if process.poll() is not None else f"is not ready after {_START_S:g} s"
                raise MfcpError(f"{name} {state}; {self.root / name}.out ends in: {said}")
            time.sleep(0.05)

    def _start_again(self) -> None:
        """Start what ended while something is waited for.

        Slurm's daemons end where the database is not there as they start, and any of them may crash: MariaDB has.
        """
        for name, process in list(self.processes.items()):
            code = process.poll()
            if code is not None and (code < 0 or name.startswith(("slurmctld", "slurmdbd"))):
                time.sleep(1.0)
                self._spawn(name)


def _listens(port: int) -> bool:
    with socket.socket() as one:
        one.settimeout(0.2)
        return one.connect_ex(("127.0.0.1", port)) == 0
