"""Families of named, typed, frozen settings: a member is registered by being defined."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from mfcp.errors import SettingsError


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
            cls.members[cls.name] = cls

    @classmethod
    def build(cls, kind: str, /, **fields: Any) -> Self:
        """The member called `kind` with these settings.

        Raises:
            SettingsError: unknown `kind`, or fields that the member does not accept.
        """
        if kind not in cls.members:
            raise SettingsError(
                f"unknown {cls.__name__.lower()} kind '{kind}'; known: {', '.join(sorted(cls.members))}"
            )
        try:
            member: Self = cls.members[kind](**fields)
        except ValidationError as error:
            raise SettingsError(f"{cls.__name__.lower()} '{kind}': {explain(error)}") from None
        return member


def explain(error: ValidationError) -> str:
    """All problems of a pydantic error on one line, each with its key path and what was seen."""
    parts = []
    for item in error.errors():
        path = ".".join(str(part) for part in item["loc"]) or "value"
        hint = "unknown key; remove it" if item["type"] == "extra_forbidden" else item["msg"]
        parts.append(f"{path}: {hint} (got {item.get('input')!r})")
    return "; ".join(parts)


def import_members(package: str) -> None:
    """Import every module of a family's package, so that its members register themselves."""
    module = importlib.import_module(package)
    for info in pkgutil.iter_modules(module.__path__):
        importlib.import_module(f"{package}.{info.name}")
