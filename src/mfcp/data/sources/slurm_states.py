"""How Slurm says that a job ended, as a status of table runs."""

from __future__ import annotations

import re

ENDED = {
    "COMPLETED": "succeeded",
    "FAILED": "failed",
    "TIMEOUT": "timeout",
    "DEADLINE": "timeout",
    "OUT_OF_MEMORY": "oom",
    "NODE_FAIL": "node_fail",
    "BOOT_FAIL": "node_fail",
    "CANCELLED": "cancelled",
    "PREEMPTED": "cancelled",
    "REVOKED": "cancelled",
}
"""State, without what follows it as in `CANCELLED by 0` → status; other states are of jobs that have not ended."""
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)[cn]?")


def status_of(state: str, exit_code: str, peak_bytes: float | None, memory_bytes: float | None) -> str | None:
    """The status of an ended job; None for one that has not ended.

    Args:
        state: as sacct prints it.
        exit_code: `code:signal`.
        peak_bytes: MaxRSS of its steps.
        memory_bytes: what it was given. A job that Slurm kills for its memory is FAILED by signal 9 where accounting
            gathers it, and OUT_OF_MEMORY only where cgroups hold it.
    """
    word = state.split(" ", 1)[0].rstrip("+")
    killed = exit_code.rpartition(":")[2] == "9"
    if word == "FAILED" and killed and peak_bytes and memory_bytes and peak_bytes > memory_bytes:
        return "oom"
    return ENDED.get(word)


def amount(text: str) -> float | None:
    """Bytes of what Slurm prints as `2311372K`; None for anything else."""
    found = _AMOUNT.fullmatch(text.strip())
    return float(found[1]) * _UNITS[found[2]] if found else None


def trackable(text: str) -> dict[str, str]:
    """Name → amount of what Slurm prints as `cpu=1,mem=2000M,gres/gpu=1`."""
    return dict(part.split("=", 1) for part in text.split(",") if "=" in part)
