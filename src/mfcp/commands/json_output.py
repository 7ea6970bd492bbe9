"""`--json`: what a command tells, as one object on standard output; everything else it says goes to standard error."""

from __future__ import annotations

import math
import sys
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from typing import Any


def add_json(parser: Any) -> None:
    """Add the option."""
    parser.add_argument("--json", action="store_true", help="what is told as JSON, for programs")


def aside(options: Any) -> AbstractContextManager[Any]:
    """Within it, what is printed goes to standard error where `--json` is asked for."""
    return redirect_stdout(sys.stderr) if options.json else nullcontext()


def print_json(content: Any) -> None:
    """Print it; a number that is not finite is null."""
    import json

    print(json.dumps(_plain(content), allow_nan=False))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(own) for key, own in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(own) for own in value]
    if hasattr(value, "tolist"):  # of numpy
        return _plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value
