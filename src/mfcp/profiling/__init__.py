"""Real training steps on the machine one stands on, written in the log schema; see docs/profiling.md."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mfcp.profiling.running import Profiled
    from mfcp.profiling.session import profile

_HOMES = {"Profiled": "running", "profile": "session"}

__all__ = ["Profiled", "profile"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'mfcp.profiling' has no attribute '{name}'")
    return getattr(importlib.import_module(f"mfcp.profiling.{_HOMES[name]}"), name)
