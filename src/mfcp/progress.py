"""What a person sees in a terminal: tables, and progress bars that are silent in logs and pipes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def console(width: int | None = None, *, stderr: bool = False) -> Console:
    """Prints titles and names as they are: in those of strangers, brackets and colons are no markup."""
    from rich.console import Console

    return Console(width=width, stderr=stderr, markup=False, emoji=False)


@contextmanager
def progress(description: str, total: int | None = None) -> Iterator[Callable[[], None]]:
    """A bar on standard error that goes on by one at each call of what is yielded; a pulse where no total is known.

    Without a terminal it prints one line on standard output instead, so that a log shows what is under way; standard
    error is left to errors.
    """
    if not sys.stderr.isatty():
        print(f"{description} …", flush=True)
        yield lambda: None
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    known = () if total is None else (MofNCompleteColumn(), TimeRemainingColumn())
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn(), *known)
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=total)
        yield lambda: bar.advance(task)
