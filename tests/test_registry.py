"""Families: members by name, settings checked, errors that say what there is."""

from typing import ClassVar

import pytest
from pydantic import BaseModel, Field, ValidationError

from mfcp.errors import SettingsError
from mfcp.registry import FamilyField, Registered, explain, import_members


class Animal(Registered):
    """A family."""


class Dog(Animal):
    name: ClassVar[str] = "dog"
    legs: int = Field(4, ge=1)


class Pack(Animal):
    name: ClassVar[str] = "pack"
    leader: FamilyField[Animal] = Dog()


class Plant(Registered):
    """Another family."""


def test_a_member_is_found_by_its_name_in_its_own_family_alone():
    assert Animal.parse("dog") == Dog()
    assert Animal.parse({"kind": "dog", "legs": 3}) == Dog(legs=3)
    assert Animal.parse(Dog(legs=2)).legs == 2
    assert "dog" not in Plant.members


def test_members_survive_their_spec_at_any_depth():
    pack = Pack(leader=Dog(legs=3))
    assert pack.spec() == {"kind": "pack", "leader": {"kind": "dog", "legs": 3}}
    assert Animal.parse(pack.spec()) == pack


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("cat", "unknown animal kind 'cat'; known: dog, pack"),
        ({"kind": "dog", "legs": 0}, "animal 'dog': legs: .*greater than or equal to 1 .got 0."),
        ({"kind": "dog", "wings": 2}, "animal 'dog': wings: unknown key; remove it"),
        ({"legs": 4}, "expected a kind or a mapping with 'kind'"),
        (7, "expected a kind or a mapping with 'kind', got 7"),
    ],
)
def test_what_is_no_member_is_told_with_what_there_is(value, words):
    with pytest.raises(SettingsError, match=words):
        Animal.parse(value)


def test_all_problems_are_one_line():
    class Two(BaseModel):
        a: int
        b: int

    with pytest.raises(ValidationError) as caught:
        Two(a="x", b="y")
    assert explain(caught.value).count(";") == 1
    assert "\n" not in explain(caught.value)


def test_an_error_quotes_no_more_of_a_value_than_helps():
    """Pydantic gives what was around a missing key as its input: a whole file."""

    class Settings(BaseModel):
        needed: int
        number: int = 0

    with pytest.raises(ValidationError) as caught:
        Settings(number="x" * 10_000, another="y" * 10_000)
    told = explain(caught.value)
    assert "needed: Field required;" in told
    assert "number: " in told
    assert len(told) < 300


def test_importing_a_package_registers_its_members():
    from mfcp.rules.base import Rule

    import_members("mfcp.rules")
    assert {"point", "margin"} <= set(Rule.members)
