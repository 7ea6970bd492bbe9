"""Files that are either whole or absent: write beside the target, then rename."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mfcp.errors import DataError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path in the folder of `path`, renamed onto it when the block ends without error.

    Raises:
        DataError: the folder cannot be written (read-only, disk full); the old file is untouched.
    """
    path = Path(path)
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.stem}.", suffix=path.suffix, dir=path.parent)
        os.close(handle)
        temporary = Path(name)
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

    Earlier results stay as they are until the new ones are complete; nothing stale is left among them.

    Raises:
        DataError: the parent folder cannot be written; the old folder is untouched.
    """
    path = Path(path)
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        temporary.chmod(0o755)
        yield temporary
        old = temporary.with_name(temporary.name + ".old")
        if path.exists():
            os.rename(path, old)
        os.rename(temporary, path)
        shutil.rmtree(old, ignore_errors=True)
    except DataError as error:  # from a file inside: name the folder that a person knows
        raise DataError(str(error).replace(str(temporary), str(path))) from None
    except OSError as error:
        raise _unwritable(path, error) from None
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


class UnwritableError(DataError):
    """Nothing can be written there: free space, or mend the rights."""


@contextmanager
def locked(path: Path, *, wait_s: float = 0.0) -> Iterator[None]:
    """Hold a lock file, made if missing, which no two processes hold at once; the kernel frees it, however one ends.

    Args:
        path: the file, whose folder is there.
        wait_s: seconds to wait for whoever holds it.

    Raises:
        BlockingIOError: it is still held then.
        UnwritableError: the file cannot be made.
    """
    until = time.monotonic() + wait_s
    try:
        file = Path(path).open("w")  # noqa: SIM115 -- closed below
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
        yield


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
