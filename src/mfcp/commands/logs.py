"""A log from its folder, validated, for every command that learns from one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mfcp.data.log.validation import Validated


def read_log(folder: Path, *, max_bad_share: float) -> Validated:
    """The validated tables of a folder; arguments and errors as `mfcp.data.log.validation.validate`."""
    from mfcp.data.log.tables import read_tables
    from mfcp.data.log.validation import validate
    from mfcp.progress import progress

    with progress(f"read and validate {folder}"):
        return validate(read_tables(folder), max_bad_share=max_bad_share)


def warn(validated: Validated) -> None:
    """Say on standard output what was left out, so that nobody learns it from a result."""
    for text in validated.report["warnings"]:
        print(f"warning: {text}", file=sys.stdout)
    bad = sum(entry["bad_rows"] for entry in validated.report["tables"].values())
    if bad:
        print(f"warning: {bad} rows break the schema and are left out; `mfcp check` names them")
