"""Files that are opened only if they are files, and what a reader does not foresee as a `DataError`."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from mfcp.errors import DataError, MfcpError

_KINDS = (
    (stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a named pipe"), (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"), (stat.S_ISSOCK, "a socket"), (stat.S_ISLNK, "a link"),
)  # fmt: skip


@contextmanager
def opened(path: Path, most_mib: float, *, expected: str = "a table") -> Iterator[IO[bytes]]:
    """A file for reading, which has content and is no more than `most_mib`.

    Opened without waiting, so that a pipe whose other end nobody writes holds up nobody.

    Raises:
        DataError: no such file, something else than a file, an empty or too large one, or one that cannot be opened.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise DataError(f"{printable(path)}: no such file; expected {expected}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{printable(path)}: cannot open ({reason}); mend the name or its rights") from None
    found = os.fstat(handle)
    if kind := kind_of(found.st_mode):
        os.close(handle)
        raise DataError(f"{printable(path)}: {kind}; expected a file")
    with os.fdopen(handle, "rb") as file:
        if found.st_size == 0:
            raise DataError(f"{printable(path)}: empty file; expected {expected}")
        if found.st_size > most_mib * 2**20:
            raise DataError(
                f"{printable(path)}: {found.st_size / 2**20:,.0f} MiB; expected at most {most_mib:g}, see `limits` of "
                "params.yaml; part it"
            )
        yield file


def kind_of(mode: int) -> str:
    """What a thing of the file system is, empty for a file."""
    return next((name for is_kind, name in _KINDS if is_kind(mode)), "")


@contextmanager
def refusing(where: object, expected: str, remedy: str = "copy or write it again") -> Iterator[None]:
    """Within it, whatever a reader raises becomes a `DataError` that names the place; this is the only such place.

    A reader of a library fails in ways that nobody lists: with the content of any file, tens of exceptions were seen.

    Args:
        where: the file.
        expected: what it should have been, as "a whole Parquet file".
        remedy: what to do about it.
    """
    try:
        yield
    except MfcpError:
        raise
    except MemoryError:
        raise DataError(f"{printable(where)}: takes more memory than there is; part it") from None
    except Exception as error:
        seen = " ".join((str(error) or type(error).__name__).split())[:200]
        raise DataError(f"{printable(where)}: not {expected} ({printable(seen)}); {remedy}") from None


def printable(text: object) -> str:
    """Text, as of a file's name, for a terminal, a log or a database: what is no character to print is escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in f"{text}")
