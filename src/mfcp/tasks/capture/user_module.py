"""A torch module out of a Python file of the user."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from mfcp.errors import DataError
from mfcp.registry import execute, where

_PROGRAM = "_mfcp_captured"


def load_module(path: Path, name: str, device: str = "meta") -> Any:
    """Execute a Python file and give its module, or what its class or function of that name makes without arguments.

    It is built on a device, on meta without weights; where it needs values to be built, on the host. A module that
    the file has ready stays where it is.

    Raises:
        DataError: the file fails, has no such name, or the name is nothing of the kind.
    """
    program = execute(path, _PROGRAM)
    if not hasattr(program, name):
        fitting = [key for key, value in vars(program).items() if _fits(value, program)]
        raise DataError(f"{path}: has no '{name}'; it has {', '.join(fitting) or 'no module, class or function'}")
    value = getattr(program, name)
    if isinstance(value, torch.nn.Module | torch.export.ExportedProgram):
        return value
    if not callable(value):
        raise DataError(f"{path}: '{name}' is a {type(value).__name__}; expected a module or what makes one")
    try:
        with torch.device(device):
            built = value()
    except Exception:
        try:
            built = value()
        except Exception as error:
            raise DataError(f"{path}: {name}() failed{where(path, error)}; it must work without arguments") from error
    if not isinstance(built, torch.nn.Module | torch.export.ExportedProgram):
        raise DataError(f"{path}: {name}() gave a {type(built).__name__}; expected a torch.nn.Module")
    return built


def _fits(value: Any, program: ModuleType) -> bool:
    made_here = inspect.isclass(value) or inspect.isfunction(value)
    return isinstance(value, torch.nn.Module) or (made_here and value.__module__ == program.__name__)
