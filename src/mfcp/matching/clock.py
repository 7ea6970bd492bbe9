"""The clock of time limits: it stands still while kernels are compiled, which takes seconds once on a machine.

Else the first round on a machine would be decided in what compiling has left of its limit, and worse than the second.
"""

from __future__ import annotations

import sys
import time


def seconds() -> float:
    """Seconds of a monotonic clock, without those in which this process has compiled or waited for it."""
    # Where it has not been imported, or another thread is at it, nothing has been compiled.
    spent = getattr(sys.modules.get("mfcp.compiling"), "spent", None)
    return time.perf_counter() - (0.0 if spent is None else spent())
