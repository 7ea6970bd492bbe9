"""Tables of benchmarks for programs: `--json FILE`, and folders and lists of names on the command line."""

from __future__ import annotations

import argparse
import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from mfcp.files import write_json


def write_records(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """A list of rows as JSON; what is no finite number is null. The folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, [{name: _finite(value) for name, value in row.items()} for row in rows])


def folder_of(text: str) -> Path:
    """A folder that is there, for `argparse`."""
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text}: no such folder")
    return Path(text)


def names_of(text: str, *, known: Collection[str]) -> list[str]:
    """Names parted by commas, in their own order, for `argparse`."""
    names = [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise argparse.ArgumentTypeError(f"no {unknown[0]!r}; there are {', '.join(known)}")
    return names


def whole(text: str) -> int:
    """A whole number of at least 1, for `argparse`."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text}")
    return int(text)


def wholes(text: str, *, least: int = 0) -> list[int]:
    """Whole numbers parted by commas, for `argparse`."""
    words = text.split(",")
    if not all(word.isdecimal() and int(word) >= least for word in words):
        raise argparse.ArgumentTypeError(f"expected whole numbers of at least {least}, parted by commas, got {text}")
    return [int(word) for word in words]


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
