"""The bounds that hold here: section `limits` of params.yaml."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from pydantic import ValidationError

from mfcp.border.bounds import Limits
from mfcp.border.yaml_text import read_yaml
from mfcp.errors import SettingsError, quoted


def limits() -> Limits:
    """Those of params.yaml in the working folder, else the defaults.

    Raises:
        SettingsError: the section breaks its schema.
    """
    return _of(os.getcwd())


@cache
def _of(folder: str) -> Limits:
    path = Path(folder) / "params.yaml"
    if not path.is_file():
        return Limits()
    content = read_yaml(path, Limits())
    section = (content if isinstance(content, dict) else {}).get("limits") or {}
    try:
        return Limits.model_validate(section)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(["limits", *map(str, first["loc"])])
        raise SettingsError(f"{path}: {key}: {first['msg']}, got {quoted(first['input'])}") from None
