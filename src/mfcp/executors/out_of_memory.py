"""What programs print when memory is not enough."""

from __future__ import annotations

_SIGNS = ("out of memory", "can't allocate memory", "cannot allocate memory", "bad_alloc", "not enough memory")


def tells_memory(text: str) -> bool:
    """Whether a message is of an allocation that failed."""
    lower = text.lower()
    return any(sign in lower for sign in _SIGNS) or "outofmemory" in lower
