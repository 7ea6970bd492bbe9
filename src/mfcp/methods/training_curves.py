"""The training curves beside a trained method's weights; read alone where nothing is predicted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from mfcp.errors import DataError

PREFIX = "history."


def curves_in(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Name → (S, checks) values, of all arrays of a model's file."""
    return {key.removeprefix(PREFIX): value for key, value in arrays.items() if key.startswith(PREFIX)}


def read_curves(folder: Path, name: str) -> dict[str, np.ndarray]:
    """The curves in `<name>.safetensors` of a folder.

    Raises:
        DataError: the file is missing or damaged.
    """
    from safetensors import SafetensorError, safe_open

    path = Path(folder) / f"{name}.safetensors"
    try:
        with safe_open(path, framework="numpy") as file:
            names = [key for key in file.keys() if key.startswith(PREFIX)]  # noqa: SIM118
            return curves_in({key: file.get_tensor(key) for key in names})
    except (SafetensorError, OSError) as error:
        raise DataError(f"{path}: not a complete model ({error}); run the finetune stage again") from None
