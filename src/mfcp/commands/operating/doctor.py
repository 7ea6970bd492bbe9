"""`mfcp doctor`: what this machine has and lacks for the library, the pipeline and a platform, and what to do."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mfcp.commands.json_output import add_json, print_json
from mfcp.errors import EXTRAS, MfcpError, SettingsError
from mfcp.progress import console

if TYPE_CHECKING:
    from mfcp.platform.state.attempts import Attempts

USES = ("library", "pipeline", "platform")
_ROOM_GIB = {"pipeline": 2.0, "platform": 5.0}  # of disk: packages are there already; outputs, caches and stores grow
_MEMORY_GIB = {"pipeline": 4.0, "platform": 8.0}
_UNASKED_S = 600.0
_SERVERS = {"PREFECT_PORT": ("Prefect", "4200"), "MLFLOW_PORT": ("MLflow", "5000")}


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Attributes:
        use: what it is for.
        name: of the thing.
        state: "ok", "note" where it works but a person should know, "missing" where that use fails without.
        found: what is there.
        remedy: what to do; empty where nothing is.
    """

    use: str
    name: str
    state: Literal["ok", "note", "missing"]
    found: str
    remedy: str = ""


def add_parser(commands: Any) -> None:
    """The sub-command and its options."""
    parser = commands.add_parser(
        "doctor",
        help="what this machine has and lacks, and what to do about it",
        description="Looks at Python, packages, programs, memory, disk, compiled kernels, the checkout and the "
        "platform; changes nothing. Exit code 1 where something is missing for the uses asked about.",
    )
    parser.add_argument(
        "uses", nargs="*", metavar="USE", help=f"{', '.join(USES)} (default: library, and the others where begun)"
    )
    parser.add_argument("--home", default="", metavar="DIR", help="folder of a platform (MFCP_HOME, else ./platform)")
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Look, tell, and end with 1 where something is missing."""
    from mfcp.platform.state.home import home_folder

    home = home_folder(options.home)
    if unknown := sorted(set(options.uses) - set(USES)):
        raise SettingsError(f"'{unknown[0]}': no use; choose of {', '.join(USES)}")
    uses = options.uses or [
        "library", *(["pipeline"] if Path("dvc.yaml").is_file() else []), *(["platform"] if home.is_dir() else [])
    ]  # fmt: skip
    looks: dict[str, Callable[[], Iterator[Check]]] = {
        "library": library, "pipeline": lambda: pipeline(Path.cwd()), "platform": lambda: platform(home),
    }  # fmt: skip
    checks = [check for use in USES if use in uses for check in looks[use]()]
    if options.json:
        print_json([asdict(check) for check in checks])
    else:
        _print(checks)
    missing = sum(check.state == "missing" for check in checks)
    if missing:
        raise MfcpError(f"{missing} missing for {', '.join(uses)}; the last column says what to do")


def _print(checks: list[Check]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for title in ("", "what", "found", "to do"):
        table.add_column(title, overflow="fold")
    colours = {"ok": "green", "note": "yellow", "missing": "red"}
    for use in dict.fromkeys(check.use for check in checks):
        table.add_section()
        for check in (one for one in checks if one.use == use):
            mark = Text(check.state, style=colours[check.state])
            table.add_row(mark, f"{check.use}: {check.name}", check.found, check.remedy)
    console().print(table)


def library() -> Iterator[Check]:
    """Python, the packages of a plain install, and whether kernels are compiled."""
    ours = f"{sys.version_info.major}.{sys.version_info.minor}.{sys.version_info.micro}"
    old = sys.version_info < (3, 11)
    yield Check("library", "Python", "missing" if old else "ok", ours, "3.11 or newer" if old else "")
    yield _packages("library", ("clarabel", "jinja2", "matplotlib", "numba", "numpy", "pandas", "pyarrow", "torch"))
    from mfcp.threads import cores

    yield Check("library", "cores", "ok", str(cores()))
    if find_spec("numba") is not None:
        yield _kernels()


def _kernels() -> Check:
    from mfcp.compiling import kept

    ready, folder, lasts = kept("matching")
    if not lasts:
        told = f"the cache cannot be written: kept in {folder}, until that is cleared"
        return Check("library", "kernels", "note", told, "set XDG_CACHE_HOME to a folder that can be written")
    if ready:
        return Check("library", "kernels", "ok", f"compiled in {folder}")
    return Check("library", "kernels", "note", "not compiled yet", "the first match takes some fifteen seconds longer")


def pipeline(checkout: Path) -> Iterator[Check]:
    """What `make run` needs in this checkout."""
    yield from _machine("pipeline", checkout)
    yield _instructions()
    yield from (_program("pipeline", name) for name in ("git", "make"))
    yield _packages("pipeline", [name for name, extra in EXTRAS.items() if extra in ("pipeline", "graphs")])
    inside = (checkout / "dvc.yaml").is_file() and (checkout / ".dvc").is_dir()
    told = str(checkout) if inside else f"{checkout} is none"
    yield Check("pipeline", "checkout", "ok" if inside else "missing", told, "" if inside else "cd to a clone of mfcp")


def _instructions() -> Check:
    from mfcp.environment import has_same_instructions

    if has_same_instructions():
        return Check("pipeline", "instructions", "ok", "AVX2 and FMA: outputs have the bytes of dvc.lock")
    told = "not x86-64 with AVX2 on Linux: outputs differ from dvc.lock"
    return Check("pipeline", "instructions", "note", told, "compare metrics, not bytes; leave dvc.lock as it is")


def platform(home: Path) -> Iterator[Check]:
    """What a platform in this folder needs, and how it is."""
    yield from _machine("platform", _nearest(home))
    yield from (_program("platform", name) for name in ("git", "dvc", "prefect", "mlflow"))
    yield _packages("platform", list(EXTRAS))
    if not home.is_dir():
        yield Check("platform", "folder", "missing", f"{home}: not there", "make platform, or set MFCP_HOME")
        return
    yield Check("platform", "folder", "ok", str(home))
    if find_spec("sqlalchemy") is not None:
        yield from _state(home)
    yield from (_server(variable) for variable in _SERVERS)


def _state(home: Path) -> Iterator[Check]:
    """Database, champion, clusters, and what waits."""
    from mfcp.platform.releases.models import Models
    from mfcp.platform.state.attempts import Attempts
    from mfcp.platform.state.home import open_store
    from mfcp.release.model import verify

    try:
        store = open_store(home, wait_s=2.0)
        counts, late, offline = store.counts(), store.undelivered(1), store.offline()
        version = Models(home, store).current()
    except MfcpError as error:
        yield Check("platform", "database", "missing", str(error), "start it, or name another in MFCP_DATABASE")
        return
    told = f"{counts['queue']} tasks pending, {counts['assignments']} assigned, {counts['set_aside']} set aside"
    yield Check("platform", "database", "ok", told)
    if version is None:
        yield Check("platform", "release", "note", "none yet", f"put a log into {home / 'inbox'}; training follows")
    else:
        try:
            verify(home / "models" / version)
            yield Check("platform", "release", "ok", f"{version} decides")
        except MfcpError as error:
            remedy = "restore it from a back-up; until then the one before it decides"
            yield Check("platform", "release", "missing", str(error), remedy)
    if offline:
        yield Check(
            "platform", "clusters", "note", f"offline: {', '.join(sorted(offline))}", "table clusters of the database"
        )
    yield from _real_clusters(home, Attempts(store))
    if counts["outbox"]:
        why = str(late["error"][0] or "not tried yet")
        yield Check("platform", "outbox", "note", f"{counts['outbox']} metrics wait for MLflow: {why}", "is MLflow up?")


def _real_clusters(home: Path, attempts: Attempts) -> Iterator[Check]:
    """Whether anybody asks the clusters that the settings name."""
    from mfcp.platform.state.home import settings

    if not (home / "repo" / "params.yaml").exists():
        return
    try:
        section = settings(home).section("platform")
    except MfcpError as error:
        yield Check("platform", "settings", "missing", str(error), "mend it: no flow runs without")
        return
    if not section.clusters:
        return
    every, now = section.every_s.run, time.time()
    within = max(10 * every, _UNASKED_S)
    asked = {str(row["cluster_id"]): float(row["at"]) for row in attempts.health()}
    silent = [name for name in sorted(section.clusters) if now - asked.get(name, 0.0) > within]
    if not every:
        yield Check("platform", "real clusters", "note", "platform.every_s.run is 0: nothing runs", "make it 60")
    elif silent:
        latest = max((asked[name] for name in silent if name in asked), default=None)
        since = "never asked" if latest is None else f"not asked for {(now - latest) / 60:.0f} min"
        remedy = "start a worker for work queue `run`: mfcp-runner.service, docs/how-to/deploy.md"
        yield Check("platform", "real clusters", "note", f"{', '.join(silent)}: {since}", remedy)
    else:
        told = f"{', '.join(sorted(section.clusters))}: asked within {within / 60:.0f} min"
        yield Check("platform", "real clusters", "ok", told)


def _server(variable: str) -> Check:
    """Whether something answers where the platform's servers are."""
    import urllib.error
    import urllib.request

    name, usual = _SERVERS[variable]
    port = os.environ.get(variable) or usual
    address = f"http://127.0.0.1:{port}{'/api/health' if name == 'Prefect' else '/health'}"
    try:
        with urllib.request.urlopen(address, timeout=2) as reply:
            return Check("platform", name, "ok" if reply.status == 200 else "note", f"answers at port {port}")
    except (urllib.error.URLError, OSError, ValueError) as error:
        why = getattr(error, "reason", error)
        return Check(
            "platform", name, "note", f"port {port}: {why}", f"make platform, or {variable} names another port"
        )


def _machine(use: str, folder: Path) -> Iterator[Check]:
    """Memory, and room on the disk of a folder."""
    memory, room = (
        os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30,
        shutil.disk_usage(folder).free / 2**30,
    )
    for name, have, need in (("memory", memory, _MEMORY_GIB[use]), ("disk", room, _ROOM_GIB[use])):
        little = have < need
        told = f"{have:.1f} GiB{' free' if name == 'disk' else ''}"
        yield Check(use, name, "note" if little else "ok", told, f"{need:g} GiB are usual" if little else "")


def _program(use: str, name: str) -> Check:
    beside = Path(sys.executable).parent / name
    found = shutil.which(name) or (str(beside) if beside.is_file() else None)
    if found is None:
        return Check(use, name, "missing", "not found", f"install {name}")
    return Check(use, name, "ok", "beside this Python" if Path(found).parent == beside.parent else found)


def _packages(use: str, names: Any) -> Check:
    """Packages by the name that they are imported under."""
    absent = [name for name in names if find_spec(name) is None]
    if not absent:
        return Check(use, "packages", "ok", f"all {len(names)}")
    extras = sorted({EXTRAS[name] for name in absent if name in EXTRAS})
    remedy = f"pip install 'mfcp[{','.join(extras)}]'" if extras else "pip install mfcp"
    return Check(use, "packages", "missing", f"without {', '.join(absent)}", remedy)


def _nearest(folder: Path) -> Path:
    """The folder, or the nearest one above it that is there."""
    return next(path for path in (folder, *folder.resolve().parents) if path.is_dir())
