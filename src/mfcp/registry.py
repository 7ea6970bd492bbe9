"""Families of named, typed, frozen settings: a member is registered by being defined."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import pkgutil
import sys
import traceback
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from mfcp.errors import DataError, SettingsError, quoted

GROUP, FILES = "mfcp", "MFCP_WITH"
"""Entry points under this group name modules that define members of families; this variable lists files that do."""


class Registered(BaseModel):
    """Base of every family (Method, Rule, Encoder, …).

    A direct subclass is a family; a subclass of a family with a `name` is a member. Its fields are
    its settings: typed, frozen, and an unknown one is an error.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: ClassVar[str] = ""
    members: ClassVar[dict[str, type[Any]]] = {}

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        if Registered in cls.__bases__:
            cls.members = {}
        elif cls.name:
            there = cls.members.get(cls.name)
            if there is not None and there.__module__ != cls.__module__:
                family = family_of(cls).__name__.lower()
                raise SettingsError(
                    f"{family} '{cls.name}' is there already, in {there.__module__}; give yours another name"
                )
            cls.members[cls.name] = cls

    @classmethod
    def build(cls, kind: str, /, **fields: Any) -> Self:
        """The member called `kind` with these settings.

        Raises:
            SettingsError: unknown `kind`, or fields that the member does not accept.
        """
        if kind not in cls.members:
            known = ", ".join(sorted(cls.members))
            family = cls.__name__.lower()
            raise SettingsError(f"unknown {family} kind '{kind}'; known: {known}; one of your own needs --with FILE.py")
        try:
            member: Self = cls.members[kind](**fields)
        except ValidationError as error:
            raise SettingsError(f"{cls.__name__.lower()} '{kind}': {explain(error)}") from None
        return member

    @classmethod
    def parse(cls, value: Any) -> Self:
        """A member from what a params file holds: a kind, a mapping with `kind`, or a member as it is.

        Raises:
            SettingsError: anything else, or as `build`.
        """
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            return cls.build(value)
        if isinstance(value, Mapping) and isinstance(value.get("kind"), str):
            return cls.build(value["kind"], **{k: v for k, v in value.items() if k != "kind"})
        raise SettingsError(f"{cls.__name__.lower()}: expected a kind or a mapping with 'kind', got {quoted(value)}")

    def spec(self) -> dict[str, Any]:
        """The mapping that `parse` turns back into this member."""
        fields = {key: getattr(self, key) for key in type(self).model_fields}
        return {"kind": self.name} | {key: _plain(value) for key, value in fields.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Registered):
        return value.spec()
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else value


Family = TypeVar("Family", bound=Registered)

if TYPE_CHECKING:
    FamilyField = Annotated[Family, "parsed by the family"]
else:

    class FamilyField:
        """`FamilyField[Rule]`: a pydantic field that takes what `Rule.parse` takes."""

        def __class_getitem__(cls, family: type[Registered]) -> Any:
            return Annotated[family, BeforeValidator(family.parse)]


def explain(error: ValidationError) -> str:
    """All problems of a pydantic error on one line, each with its key path and what was seen."""
    parts = []
    for item in error.errors():
        path = ".".join(str(part) for part in item["loc"]) or "value"
        hint = "unknown key; remove it" if item["type"] == "extra_forbidden" else item["msg"]
        parts.append(f"{path}: {hint}" + (f" (got {quoted(item.get('input'))})" if item["type"] != "missing" else ""))
    return "; ".join(parts)


def family_of(member: type[Registered]) -> type[Registered]:
    """The direct subclass of `Registered` that a member derives from."""
    return next(base for base in member.__mro__ if Registered in base.__bases__)


@cache
def import_members(package: str) -> None:
    """Import every module of a family's package, so that its members register themselves, and installed extensions.

    Raises:
        SettingsError: an installed extension cannot be imported.
    """
    module = importlib.import_module(package)
    for info in pkgutil.iter_modules(module.__path__):
        importlib.import_module(f"{package}.{info.name}")
    _import_installed()


def execute(path: Path, name: str) -> ModuleType:
    """Execute a Python file as a module of this name; files beside it can be imported, as if it were run.

    Raises:
        DataError: no such file, or it fails, with the line.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file; expected a Python file")
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise DataError(f"{path}: expected a Python file, with a name that ends in .py")
    program, done = importlib.util.module_from_spec(spec), False
    sys.modules[name] = program  # dataclasses and pydantic look their module up
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        spec.loader.exec_module(program)
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from None
    except (Exception, SystemExit) as error:
        raise DataError(f"{path}: cannot be executed{where(path, error)}; mend it") from error
    else:
        done = True
    finally:
        sys.path.pop(0)
        if not done:
            del sys.modules[name]
    return program


def where(path: Path, error: BaseException) -> str:
    """The line of a file that an error came from, and what it says."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename).resolve() == path.resolve()]
    line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    reason = " ".join(str(error).split())
    return f"{f', line {line}' if line else ''} ({type(error).__name__}: {reason})"


def imported_file(path: Path) -> ModuleType:
    """A Python file of the user as a module, executed once.

    Raises:
        DataError: see `execute`.
    """
    whole = path.resolve()
    name = f"mfcp_with_{path.stem}_{hashlib.sha256(str(whole).encode()).hexdigest()[:8]}"
    return sys.modules[name] if name in sys.modules else execute(whole, name)


@cache
def _import_installed() -> None:
    """Import the modules that installed packages name under the entry-point group `GROUP`, and the files of `FILES`."""
    from importlib.metadata import entry_points

    for name in os.environ.get(FILES, "").split(os.pathsep):
        if name:
            imported_file(Path(name))
    for entry in entry_points(group=GROUP):
        try:
            entry.load()
        except Exception as error:
            reason = " ".join(str(error).split())
            raise SettingsError(
                f"extension '{entry.name}' ({entry.value}): cannot be imported ({type(error).__name__}: {reason}); "
                "mend or uninstall the package"
            ) from error
