"""Every operation of a process on the files of a folder, seen from within: Python's audit hooks, before each one.

Libraries that open files by themselves (Arrow, safetensors, SQLite) are seen by what they leave at the next operation.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
PATHS = {
    "os.rename": (0, 1), "os.link": (1,), "os.symlink": (1,), "os.remove": (0,), "os.mkdir": (0,), "os.rmdir": (0,),
    "os.truncate": (0,),
}  # fmt: skip
FREES = ("os.remove", "os.rmdir")
"""What works on a full disk."""


class Watched:
    """Calls `seen` before every operation that changes something in a folder, of this process from now on.

    Args:
        folder: the folder.
        apart: pattern of paths that do not count: what a package writes by itself.
        seen: gets the number of the operation, from 0, its name, and the path that it makes or removes; what it raises
            the operation raises.
    """

    def __init__(self, folder: Path, apart: str, seen: Callable[[int, str, str], None]) -> None:
        self.apart = re.compile(apart)
        self.folder, self.seen, self.count, self.busy = f"{folder.resolve()}{os.sep}", seen, 0, False
        sys.addaudithook(self._hook)

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        if self.busy or not (event == "open" or event in PATHS):
            return
        if event == "open":
            path, _, flags = args
            if not isinstance(flags, int) or not flags & WRITING or not isinstance(path, str | bytes | os.PathLike):
                return
            if os.path.isdir(path):  # a file without a name in it
                return
            paths = [path]
        else:
            paths = [args[k] for k in PATHS[event]]
        inside = [text for path in paths if (text := self._inside(path))]
        if not inside:
            return
        self.busy = True
        try:
            self.seen(self.count, event, inside[-1])
        finally:
            self.count, self.busy = self.count + 1, False

    def _inside(self, path: Any) -> str:
        """The path within the folder, empty for another one."""
        if not isinstance(path, str | bytes | os.PathLike):
            return ""
        whole = os.path.abspath(os.fsdecode(path))
        path = whole.removeprefix(self.folder) if whole.startswith(self.folder) else ""
        return "" if self.apart.search(path) else path
