"""JSON that nobody vouches for."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from mfcp.border.bounds import Limits
from mfcp.border.limits import limits
from mfcp.border.regular import opened, printable, refusing
from mfcp.errors import DataError

NOT_A_NUMBER = "NaN"
"""A number that is none, in a cell: only an empty one means unknown."""
_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[{]|[\]}]', re.DOTALL)
_LONG = re.compile(rb"[0-9]{19}")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def read_json(path: Path, bounds: Limits | None = None) -> Any:
    """The content of a JSON file.

    Raises:
        DataError: no such file, too large or too deep, not JSON.
    """
    bounds = bounds or limits()
    with opened(path, bounds.json_mib, expected="JSON") as file:
        return parse_json(file.read(), path, bounds)


def parse_json(content: bytes, where: object, bounds: Limits, *, nan: str | None = None) -> Any:
    """Parse one JSON value.

    Whole numbers that no column holds (beyond 64 bits) become text, since Python takes minutes for those of a million
    digits and other libraries fail at them.

    Args:
        content: UTF-8.
        where: the place for messages.
        bounds: see `Limits`.
        nan: what NaN is read as, by default a float.

    Raises:
        DataError: deeper than `bounds.depth`, not JSON, or text with half a character.
    """
    if content.count(b"[") + content.count(b"{") > bounds.depth and depth(content) > bounds.depth:
        raise DataError(
            f"{printable(where)}: lists and objects within each other, more than {bounds.depth} deep; see `limits` of "
            "params.yaml"
        )
    with refusing(where, "valid JSON"):
        text = content.decode("utf-8")
        whole = _whole if _LONG.search(content) else None
        value = json.loads(text, parse_int=whole, parse_constant=lambda word: _constant(word, nan))
        if "\\u" in text and _has_half(value):
            raise ValueError("text holds half a character, a lone surrogate")
    return value


def depth(content: bytes) -> int:
    """How deep lists and objects lie within each other."""
    level = deepest = 0
    for found in _BRACKETS.finditer(content):
        first = found.group()[:1]
        level += (first in b"[{") - (first in b"]}")
        deepest = max(deepest, level)
    return deepest


def _whole(digits: str) -> int | str:
    number = int(digits) if len(digits) <= 20 else 2**64
    return number if -(2**63) <= number < 2**63 else digits


def _constant(word: str, nan: str | None) -> float | str:
    return nan if nan is not None and word == "NaN" else float(word)


def _has_half(value: Any) -> bool:
    waiting = [value]
    while waiting:
        own = waiting.pop()
        if isinstance(own, str):
            if _SURROGATE.search(own):
                return True
        elif isinstance(own, dict):
            waiting.extend([*own, *own.values()])
        elif isinstance(own, list):
            waiting.extend(own)
    return False
