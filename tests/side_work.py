"""What processes of `mfcp.threads.beside` do in tests: a module that they can import."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mfcp.errors import DataError


def squared(x: int, advance: Callable[[], Any]) -> tuple[int, int]:
    """x² in two steps, and in which process."""
    advance()
    advance()
    return x * x, os.getpid()


def failing(x: int, folder: Path, advance: Callable[[], Any]) -> None:
    """An error for 0; else steps for a minute, and a file if it comes to their end."""
    if x == 0:
        raise DataError("row 7: no such thing")
    for _ in range(600):
        advance()
        time.sleep(0.1)
    (folder / str(x)).touch()


def dying(x: int, advance: Callable[[], Any]) -> None:
    """The process of 0 ends as if it had been killed."""
    if x == 0:
        os._exit(9)
    time.sleep(0.1)
