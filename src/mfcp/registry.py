"""Families of named, typed, frozen settings: a member is registered by being defined."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

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
        raise SettingsError(f"{cls.__name__.lower()}: expected a kind or a mapping with 'kind', got {value!r}")

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
        parts.append(f"{path}: {hint} (got {item.get('input')!r})")
    return "; ".join(parts)


@cache
def import_members(package: str) -> None:
    """Import every module of a family's package, so that its members register themselves."""
    module = importlib.import_module(package)
    for info in pkgutil.iter_modules(module.__path__):
        importlib.import_module(f"{package}.{info.name}")
