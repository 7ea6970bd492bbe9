"""Files that are either whole or absent: write beside the target, then rename."""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from mfcp.errors import DataError, SettingsError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path in the folder of `path`, renamed onto it when the block ends without error.

    Raises:
        DataError: a folder has that name, or its folder cannot be written (read-only, disk full); the old file is
            untouched.
    """
    path = Path(path)
    _refuse_folder(path)
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _held(path.parent, path.stem, path.suffix) as temporary:
            yield temporary
            umask = os.umask(0)
            os.umask(umask)
            temporary.chmod(0o666 & ~umask)
            os.replace(temporary, path)
    except OSError as error:
        raise _unwritable(path, error) from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """A temporary folder beside `path` that takes its place when the block ends without error.

    Earlier results stay as they are until the new ones are complete; nothing stale is left among them. Where the system
    can swap two folders at once there is one at any moment; elsewhere a kill between two renames leaves none.

    Raises:
        DataError: the parent folder cannot be written; the old folder is untouched.
    """
    path = Path(path)
    with _aside(path, path.parent) as temporary:
        temporary.chmod(0o755)
        yield temporary
        if not path.exists():
            os.rename(temporary, path)
        elif not _swapped(temporary, path):
            old = temporary.with_name(temporary.name + ".old")
            os.rename(path, old)
            os.rename(temporary, path)
            shutil.rmtree(old, ignore_errors=True)


@contextmanager
def replacing_files(folder: Path, *optional: str) -> Iterator[Path]:
    """A temporary folder whose files take their places in `folder` when the block ends without error.

    Earlier files stay as they are until all new ones are complete, and those of other names for good.

    Args:
        folder: where the files belong.
        optional: names of files that not every run makes; an earlier one is removed where there is no new one.

    Raises:
        DataError: the folder cannot be written; its files are untouched.
    """
    folder = Path(folder)
    with _aside(folder, folder) as temporary:
        yield temporary
        new = sorted(file.name for file in temporary.iterdir())
        for name in new:
            os.replace(temporary / name, folder / name)
        for name in set(optional).difference(new):
            (folder / name).unlink(missing_ok=True)


@contextmanager
def _aside(path: Path, parent: Path) -> Iterator[Path]:
    """A temporary folder in `parent` for what will be `path`, which errors name."""
    temporary: Path | None = None
    try:
        parent.mkdir(parents=True, exist_ok=True)
        with _held(parent, path.name, "", folder=True) as temporary:
            yield temporary
    except DataError as error:  # from a file inside: name the folder that a person knows
        kind = UnwritableError if isinstance(error, UnwritableError) else DataError
        raise kind(str(error).replace(str(temporary), str(path))) from None
    except OSError as error:
        raise _unwritable(path, error) from None
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def remove_folder(path: Path) -> None:
    """Take a folder away under its name at once, then remove it; what a kill leaves goes with the next `replacing`.

    Where it cannot be taken away, it stays whole.
    """
    path = Path(path)
    gone = path.with_name(f".{path.name}{_MARK}{os.urandom(4).hex()}")
    with suppress(OSError):
        os.rename(path, gone)
        shutil.rmtree(gone, ignore_errors=True)


_MARK = ".mfcp-"
_cleared: set[Path] = set()


@contextmanager
def _held(parent: Path, name: str, suffix: str, *, folder: bool = False) -> Iterator[Path]:
    """A temporary file or folder with a name of its own, beside which nobody clears up as long as its process lives.

    Whoever writes in a folder shares a lock on it, not on the file: a library may put a new file in its place. Whoever
    gets that lock alone finds there only what killed processes have left, and removes it, once in every folder.
    """
    handle = os.open(parent, os.O_RDONLY)
    try:
        if parent.absolute() not in _cleared:
            with suppress(OSError):  # others are writing there: another time
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _clear(parent)
                _cleared.add(parent.absolute())
        fcntl.flock(handle, fcntl.LOCK_SH)
        prefix = f".{name}{_MARK}"
        if folder:
            yield Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        else:
            file, made = tempfile.mkstemp(prefix=prefix, suffix=suffix, dir=parent)
            os.close(file)
            yield Path(made)
    finally:
        os.close(handle)


def _clear(parent: Path) -> None:
    """Remove what killed processes have left half-written in a folder."""
    for path in parent.glob(f".*{_MARK}*"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _swapped(one: Path, other: Path) -> bool:
    """Swap two names at once, if this system can."""
    swap = _renameat2()
    return swap is not None and swap(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _EXCHANGE) == 0


_AT_FDCWD, _EXCHANGE = -100, 2  # of Linux


@cache
def _renameat2() -> Any:
    return getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform == "linux" else None


class UnwritableError(DataError):
    """Nothing can be written there: free space, or mend the rights."""


@contextmanager
def locked(path: Path, *, wait_s: float = 0.0) -> Iterator[None]:
    """Hold a lock file, made if missing, which no two processes hold at once; the kernel frees it, however one ends.

    Args:
        path: the file; its folder is made if missing.
        wait_s: seconds to wait for whoever holds it.

    Raises:
        BlockingIOError: it is still held then.
        UnwritableError: the file cannot be made.
    """
    until = time.monotonic() + wait_s
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("a")  # what its holder has written stays
        except OSError as error:
            raise _unwritable(path, error) from None
        with file:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() >= until:
                        raise
                    time.sleep(0.05)
            if not _is_open(path, file.fileno()):
                continue  # its holder has taken the folder away meanwhile
            yield
            return


def _is_open(path: Path, handle: int) -> bool:
    """Whether a name is still that of an open file."""
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False


def _unwritable(path: Path, error: OSError) -> UnwritableError:
    return UnwritableError(f"{path}: cannot write ({error.strerror or error}); free space or choose another folder")


def output_folder(path: Path) -> Path:
    """The folder, made if missing and tried out, so that a long run does not end at its first write.

    Raises:
        DataError: it cannot be made or written.
    """
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            return Path(path)
    except OSError as error:
        raise _unwritable(path, error) from None


def output_file(path: Path) -> None:
    """Try out whether a file can be written, before what it will hold is computed.

    Raises:
        DataError: a folder has that name, or its folder cannot be made or written.
    """
    _refuse_folder(Path(path))
    output_folder(Path(path).parent)


def _refuse_folder(path: Path) -> None:
    if os.path.isdir(path):  # False where that cannot be told
        raise DataError(f"{path}: a folder; expected the name of a file")


def sqlite_url(path: Path) -> str:
    """SQLAlchemy's URL of an SQLite file.

    Raises:
        SettingsError: a question mark in its path, which ends the path of a URL: the file would be made elsewhere.
    """
    if "?" in str(path):
        raise SettingsError(f"{path}: a question mark in the path of a database; rename the folder that has it")
    return f"sqlite:///{path}"


def folder_digest(path: Path) -> str:
    """SHA-256 of the names and contents of a folder's files; hidden ones do not count."""
    files = [p for p in Path(path).rglob("*") if p.is_file() and not p.name.startswith(".")]
    return files_digest({file.relative_to(path).as_posix(): file for file in files})


def files_digest(files: Mapping[str, Path]) -> str:
    """SHA-256 of names and of the contents of the files that go by them."""
    whole = hashlib.sha256()
    for name, path in sorted(files.items()):
        with path.open("rb") as content:
            own = f"{name}\0{hashlib.file_digest(content, 'sha256').hexdigest()}\0"
            whole.update(own.encode("utf-8", "surrogateescape"))  # names of files may be any bytes
    return whole.hexdigest()


def write_json(path: Path, content: Any) -> None:
    """Write `content` as JSON, keys in their own order, atomically."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n")
