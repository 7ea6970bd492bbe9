"""What every stage shares: where things lie, and how errors reach a person."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mfcp.errors import guarded
from mfcp.settings import Settings
from mfcp.threads import allow_processes

RAW, VALID, FEATURES, MODELS, REPORTS = (
    Path("data") / name for name in ("raw", "valid", "features", "models", "reports")
)


def main(run: Callable[..., Any], *args: str) -> None:
    """Run a stage on params.yaml of the working folder and end the process with the contract's exit codes.

    2 for bad input or settings, 1 for an internal failure, 130 after Ctrl-C; a stage replaces its outputs only
    when they are complete, so whatever ends it harms neither its input nor earlier results.
    """
    allow_processes()
    sys.exit(guarded(lambda: run(Settings.load(Path("params.yaml")), *args)))
