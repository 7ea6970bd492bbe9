"""A torch module out of a Python file of the user."""

from __future__ import annotations

import importlib.util
import inspect
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from mfcp.errors import DataError

_PROGRAM = "_mfcp_captured"


def load_module(path: Path, name: str, device: str = "meta") -> Any:
    """Execute a Python file and give its module, or what its class or function of that name makes without arguments.

    It is built on a device, on meta without weights; where it needs values to be built, on the host. A module that
    the file has ready stays where it is.

    Raises:
        DataError: the file fails, has no such name, or the name is nothing of the kind.
    """
    program = _execute(path)
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
            raise DataError(f"{path}: {name}() failed{_where(path, error)}; it must work without arguments") from error
    if not isinstance(built, torch.nn.Module | torch.export.ExportedProgram):
        raise DataError(f"{path}: {name}() gave a {type(built).__name__}; expected a torch.nn.Module")
    return built


def _execute(path: Path) -> ModuleType:
    if not path.is_file():
        raise DataError(f"{path}: no such file; expected a Python file")
    spec = importlib.util.spec_from_file_location(_PROGRAM, path)
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    sys.modules[_PROGRAM] = program  # dataclasses and pickles look their module up
    sys.path.insert(0, str(path.parent.resolve()))  # files beside it, as if it were run
    try:
        spec.loader.exec_module(program)
    except (Exception, SystemExit) as error:
        raise DataError(f"{path}: cannot be executed{_where(path, error)}; mend it") from error
    finally:
        sys.path.pop(0)
    return program


def _where(path: Path, error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename).resolve() == path.resolve()]
    line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    reason = " ".join(str(error).split())
    return f"{f', line {line}' if line else ''} ({type(error).__name__}: {reason})"


def _fits(value: Any, program: ModuleType) -> bool:
    made_here = inspect.isclass(value) or inspect.isfunction(value)
    return isinstance(value, torch.nn.Module) or (made_here and value.__module__ == program.__name__)
