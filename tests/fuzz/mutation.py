"""Inputs that somebody may send: valid ones with bytes, values or structure changed at random."""

from __future__ import annotations

import copy
import json
import random
import re
from typing import Any

LARGEST = 1 << 18  # bytes of a case

TOKENS = [
    b"", b"\0", b"\n", b"\r\n", b",", b'"', b'""', b"'", b";", b"\t", b" ", b"\xff", b"\xc3(", b"\xed\xa0\x80",
    b"\xef\xbb\xbf", b"NaN", b"nan", b"inf", b"-inf", b"Infinity", b"null", b"None", b"true", b"-1", b"0", b"1e999",
    b"-0.0", b"1e-400", b"9" * 30, b"9" * 5000, b"0x10", b"1_000", b"=cmd()", b"@SUM(A1)", b"\\ud800", b"\\u0000",
    b"\\n", b"[", b"]", b"{", b"}", b"[" * 200, b'{"a":' * 200, b"- " * 200, b": ", b"? ", b"&a", b"*a", b"<<: *a",
    b"|\n", b">\n", b"!!python/name:os.system ", b"!!binary ", b"2020-99-99", b"2026-01-01T00:00:00",
    b"9999999-01-01", b"..", b"/", b"../../etc/passwd", b"%s%n", b"PAR1", b"PK", b"\x1f\x8b", b"\x93NUMPY", b"ustar",
    b"(3, 3)", b"(9**9,)", b"|O8", b"\xe2\x80\xa8", b"\xf0\x9f\x98\x80", b"a" * 3000,
]  # fmt: skip

_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")
_NUMBERS = (b"0", b"-1", b"1", b"2147483648", b"9223372036854775808", b"1e308", b"-1e308", b"0.1", b"1e-320", b"7" * 40)

VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 2**31, 2**53 + 1, 2**63, -(2**63), 10**30, 10**400, 0.5, -0.0, 1e-320, 1e308,
    float("inf"), float("nan"), "", " ", "a", "nan", "1", "1e5", "\0", "\ud800", "é", "a" * 2000, "=cmd()", "../x",
    "2026-01-01T00:00:00Z", "succeeded", [], {}, [1], ["a", 1, None], {"a": 1}, {"": {"": []}}, [[[[[[1]]]]]],
]  # fmt: skip


def mutated(rng: random.Random, content: bytes, others: list[bytes]) -> bytes:
    """One to five changes of bytes, at most `LARGEST` long."""
    result = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 5))):
        result = _changed(rng, result, others)
        del result[LARGEST:]
    return bytes(result)


def _changed(rng: random.Random, content: bytearray, others: list[bytes]) -> bytearray:
    size = len(content)
    at = rng.randrange(size + 1)
    end = min(size, at + rng.choice((1, 1, 2, 4, 8, 64, 1024)))
    match rng.randrange(10):
        case 0 if at < size:
            content[at] ^= 1 << rng.randrange(8)
        case 1 if at < size:
            content[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, 0x2C, 0x22, 0x0A))
        case 2:
            content[at:at] = bytes(rng.randrange(256) for _ in range(rng.choice((1, 2, 8, 40))))
        case 3:
            del content[at:end]
        case 4:
            content[at:at] = bytes(content[at:end]) * rng.choice((1, 2, 10, 500))
        case 5:
            other = rng.choice(others)
            cut = rng.randrange(len(other) + 1)
            content[at:] = other[cut:]
        case 6:
            del content[at:]
        case 7 if numbers := list(_NUMBER.finditer(bytes(content[:20_000]))):
            found = rng.choice(numbers)
            content[found.start() : found.end()] = rng.choice(_NUMBERS)
        case _:
            content[at : rng.choice((at, end))] = rng.choice(TOKENS)
    return content


def restructured(rng: random.Random, value: Any) -> Any:
    """A copy of a JSON value with one to three of its parts replaced, dropped, doubled or renamed."""
    value = json.loads(json.dumps(value))
    for _ in range(rng.choice((1, 1, 2, 3))):
        places = list(_places(value))
        if not places:
            return copy.deepcopy(rng.choice(VALUES))
        holder, key = rng.choice(places)
        match rng.randrange(6):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, dict):
                holder[rng.choice(("", "x", "\0", "a" * 300, f"{key} "))] = holder.pop(key)
            case 2 if isinstance(holder, list):
                holder.extend([holder[key]] * rng.choice((1, 3, 300)))
            case 3:
                other, own = rng.choice(places)
                if own in other if isinstance(other, dict) else own < len(other):
                    holder[key] = json.loads(json.dumps(other[own]))
            case _:
                holder[key] = copy.deepcopy(rng.choice(VALUES))  # the next change may be within it
    return value


def _places(value: Any) -> Any:
    """Every (list or mapping, key) below a value."""
    waiting = [value]
    while waiting:
        own = waiting.pop()
        items = own.items() if isinstance(own, dict) else enumerate(own) if isinstance(own, list) else ()
        for key, part in items:
            yield own, key
            waiting.append(part)


def text_of(value: Any) -> bytes:
    """JSON as Python writes it: NaN and halves of characters stay."""
    return json.dumps(value, ensure_ascii=True).encode()
