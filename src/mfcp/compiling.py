"""How kernels are compiled, where that is kept, and why everyone runs the same code.

Numba keeps what it has compiled beside the source and looks at that one file. Here it is kept in the user's cache,
under a digest of all kernels' sources of a package, such as `mfcp.matching`, the libraries and the processor: every
clone of the same sources shares it, and a kernel is compiled again when one that it inlines has changed. A user without
a cache, as containers have them, has a private folder among the temporary files instead.

What a process has just compiled is linked with whatever else it has compiled before, and where sums may be reordered
its last bits are not those of the code that is kept. So a module that calls `prepare` is compiled by a process of its
own, and every other one loads what that has left: equal sources give equal bits, in the first run and in the last.

`python -m mfcp.matching` compiles all such modules: `make setup` does it while packages are installed.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import hashlib
import importlib
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numba
from numba.core import event
from numba.core.caching import UserWideCacheLocator
from numba.core.registry import cpu_target

PRICES = "matching.kernels.relaxed_newton"
"""The module that a single round can do without, see `mfcp.matching.relaxed.argmin.soonest`."""

ROUNDS = (*(f"matching.kernels.{name}" for name in ("enumeration_search", "expected_cost", "tie_breaking")), PRICES)
"""Modules that most rounds need."""

_ROOT = Path(__file__).parent
_KEPT = 16  # versions of the sources of packages, the newest: a few megabytes each
_IMPORT = re.compile(rb"^\s*from (mfcp[\w.]*) import", re.MULTILINE)
_INTO = "MFCP_KERNELS_INTO"  # the folder of a process that compiles for the others
_PREPARED = b"\nprepare(__name__)\n"
_POLL_S = 0.02
_running: list[subprocess.Popen[bytes]] = []  # may outlive this one
_asked: set[str] = set()  # modules that another process compiles for this one


class Locator(UserWideCacheLocator):
    """Where Numba keeps the kernels of a module; None for anybody else's functions."""

    def __init__(self, py_func: Any, py_file: str) -> None:
        super().__init__(py_func, py_file)  # type: ignore[no-untyped-call]
        own = Path(py_file)
        self._cache_path = os.environ.get(_INTO) or str(
            _folder(own.relative_to(_ROOT).parts[0]) / ".".join(own.relative_to(_ROOT).with_suffix("").parts)
        )

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Locator | None:
        """Numba's way to ask."""
        if not Path(py_file).is_relative_to(_ROOT):
            return None
        return super().from_function(py_func, py_file)  # type: ignore[no-any-return, no-untyped-call]


# Read whenever a function is decorated; Numba's own locators follow, where ours has no place to write.
_OTHERS = ("UserProvidedCacheLocator", "InTreeCacheLocator", "UserWideCacheLocator", "IPythonCacheLocator")
numba.config.CACHE_LOCATOR_CLASSES = ",".join([f"{__name__}.Locator", *_OTHERS])  # type: ignore[attr-defined]


class _Compiling(event.Listener):
    """While Numba compiles, time is counted, and Python's collector rests: it would take an eighth of that time, and
    finds next to nothing.
    """

    def __init__(self) -> None:
        self.depth, self.rested = 0, False
        self.since, self.total = 0.0, 0.0

    def on_start(self, _: Any) -> None:
        """A kernel is compiled, perhaps for one that is being compiled."""
        if self.depth == 0:
            self.since = time.perf_counter()
            if gc.isenabled():
                gc.disable()
                self.rested = True
        self.depth += 1

    def on_end(self, _: Any) -> None:
        """It has been, or cannot be."""
        self.depth -= 1
        if self.depth == 0:
            self.total += time.perf_counter() - self.since
            if self.rested:
                gc.enable()
                self.rested = False


_compiling = _Compiling()
event.register("numba:compile", _compiling)  # type: ignore[no-untyped-call]


def spent() -> float:
    """Seconds for which this process has compiled kernels, or has waited for a process that does."""
    return _compiling.total + (time.perf_counter() - _compiling.since if _compiling.depth else 0.0)


kernel: Any = partial(numba.njit, cache=True, nogil=True, error_model="numpy")
"""Decorator of a kernel: `@kernel`, or `@kernel(signature, further options)`."""

uncounted: Any = partial(kernel, _nrt=False)
"""Decorator of a kernel that allocates nothing, without Numba's reference counts.

Numba counts each look at an array of a tuple by atomic writes. These take a tenth of the time of a small round, and
threads that share the array contend for them.
"""

internal: Any = partial(kernel, no_cpython_wrapper=True, no_cfunc_wrapper=True)
"""Decorator of a kernel that only other kernels call: part of the time to compile is for the way in from Python.

Called from Python it would crash the process: a test calls it from a kernel of its own.
"""

inner: Any = partial(internal, _nrt=False)
"""Decorator of an uncounted kernel that only other kernels call."""

inlined: Any = partial(inner, forceinline=True)
"""Decorator of an inner kernel that becomes a part of its callers: where a call is short, handing over a dozen arrays,
a hundred numbers, takes longer than what it does.
"""


def prepare(module: str) -> None:
    """Have a module compiled where it is not yet; called before its first kernel.

    Its kernels have signatures, so that importing it compiles all of it. Where nothing can be kept, the importer does.

    Args:
        module: its name.
    """
    name = module.partition("mfcp.")[2]
    if _INTO in os.environ or not _missing([name]):
        return
    if sys.stderr.isatty():
        print(f"compiling {name} for this machine, once: some ten seconds …", file=sys.stderr, flush=True)
    begin = time.perf_counter()
    while name in _asked - {PRICES} and _running[-1].poll() is None and _missing([name]):
        time.sleep(_POLL_S)  # it is that process's next, or the next but one: nobody begins it twice
    _compile(name)
    _compiling.total += time.perf_counter() - begin


def prepare_ahead(names: Iterable[str] = ROUNDS) -> None:
    """Have modules compiled by another process, so that they are ready, or nearly so, when they are imported.

    The one that a single round can do without is compiled after the others, where it holds up nobody.
    """
    if missing := [name for name in _missing(names) if name not in _asked]:
        _asked.update(missing)
        first, last = [name for name in missing if name != PRICES], [PRICES] * (PRICES in missing)
        work = f"compile_modules({first}); os.nice(10); compile_modules({last})"
        command = [sys.executable, "-c", f"import os; from {__name__} import compile_modules; {work}"]
        nothing = subprocess.DEVNULL
        _running.append(
            subprocess.Popen(
                command,
                env=_environment(),
                stdin=nothing,
                stdout=nothing,
                stderr=nothing,
                start_new_session=True,  # Ctrl-C is not for it
            )
        )


@atexit.register
def _let_go() -> None:
    """Nobody has to wait for processes that outlive this one: Python would warn of each."""
    for process in _running:
        process.returncode = process.poll() or 0


def is_ready(name: str) -> bool:
    """Whether a module, named as in `ROUNDS`, is compiled for this machine, or imported; else importing it waits."""
    return f"mfcp.{name}" in sys.modules or not _missing([name])


def kept(package: str) -> tuple[bool, Path, bool]:
    """Whether what most rounds need is compiled for this machine, the folder where it is or would be kept, and whether
    that is the user's cache.
    """
    return not _missing(ROUNDS), _folder(package), _home().name == "mfcp"


def compile_modules(names: Iterable[str]) -> None:
    """Have modules compiled that are not yet, as many at a time as there are cores.

    Each is compiled by a copy of this process, which must have a single thread and have compiled nothing yet: what
    Numba needs before its first kernel, a third of a second, is made once.
    """
    waiting, running = _missing(names), set[int]()
    if waiting:
        cpu_target.typing_context.refresh()
        cpu_target.target_context.refresh()
    while waiting or running:
        if waiting and len(running) < (os.cpu_count() or 1):
            name = waiting.pop(0)
            child = os.fork()
            if child == 0:
                try:
                    _compile(name, _here)
                finally:  # whatever happens, the copy does not go on with what its original does
                    os._exit(0)
            running.add(child)
        else:
            running.discard(os.wait()[0])


def prepared(package: str) -> list[str]:
    """Every module of a package that calls `prepare`."""
    files = sorted((_ROOT / package).rglob("*.py"))
    return [".".join(path.relative_to(_ROOT).with_suffix("").parts) for path in files if _PREPARED in path.read_bytes()]


def _missing(names: Iterable[str]) -> list[str]:
    return [name for name in names if not (_folder(name.partition(".")[0]) / name).is_dir()]


def _elsewhere(name: str, into: Path) -> bool:
    """Compile a module in a process of its own; whether that went well."""
    command = [sys.executable, "-c", f"import mfcp.{name}"]
    return subprocess.run(command, env=_environment() | {_INTO: str(into)}, capture_output=True).returncode == 0


def _here(name: str, into: Path) -> bool:
    """Compile a module in this process, which is for nothing else; whether that went well."""
    if _compiling.total or f"mfcp.{name}" in sys.modules:
        return _elsewhere(name, into)  # last bits depend on what was compiled before
    os.environ[_INTO] = str(into)
    try:
        importlib.import_module(f"mfcp.{name}")
    except Exception:  # whoever imports it next is told
        return False
    return True


def _compile(name: str, how: Callable[[str, Path], bool] = _elsewhere) -> None:
    """One module, whole or not at all; one that cannot be compiled says why where it is imported next."""
    folder = _folder(name.partition(".")[0])
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (folder / f".{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # others wait for what this process compiles
            if not _missing([name]):
                return
            for left in folder.glob(f".{name}.*/"):
                shutil.rmtree(left, ignore_errors=True)
            into = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=folder))
            if how(name, into):
                os.rename(into, folder / name)
            else:
                shutil.rmtree(into)
        for old in sorted(folder.parent.iterdir(), key=os.path.getmtime)[:-_KEPT]:
            shutil.rmtree(old, ignore_errors=True)
    except OSError:
        return


def _environment() -> dict[str, str]:
    """Variables of a process that imports this very package."""
    path = os.pathsep.join(filter(None, [str(_ROOT.parent), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path}


@cache
def _folder(package: str) -> Path:
    """Of the sources of a package's kernels and of the modules that these import, the libraries and the processor."""
    whole = hashlib.sha256()
    kernels = [path for path in sorted((_ROOT / package).rglob("*.py")) if b"compiling import" in path.read_bytes()]
    names = {name.decode() for path in kernels for name in _IMPORT.findall(path.read_bytes())}
    files = (_ROOT.parent.joinpath(*name.split(".")).with_suffix(".py") for name in names)
    for path in sorted({Path(__file__), *kernels, *filter(Path.is_file, files)}):
        source = path.read_bytes()
        whole.update(f"{path.relative_to(_ROOT).as_posix()}\0{len(source)}\0".encode() + source)
    processor = cpu_target.target_context.codegen().magic_tuple()  # and what it can do
    for part in (sys.version, numba.__version__, processor):
        whole.update(f"{part}\0".encode())
    return _home() / "kernels" / f"{package}-{whole.hexdigest()[:16]}"


@cache
def _home() -> Path:
    """In the user's cache; else where only this user can write, since what is kept there is executed."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")).absolute() / "mfcp"
    there = next(path for path in (home / "kernels", home, *home.parents) if path.exists())
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        return home
    private = Path(tempfile.gettempdir()) / f"mfcp-{os.getuid()}"
    try:
        private.mkdir(mode=0o700, exist_ok=True)
        found = private.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022:
            return private
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix="mfcp-"))
