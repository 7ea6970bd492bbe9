"""docs/equations.md is true: each row's function exists, its docstring names the equation, and no other claims it."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TABLE = (ROOT / "docs" / "equations.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (\(\d+\)|Algorithm \d) \| [^|]+ \| (`[^`]+`|statement) \|", TABLE, flags=re.MULTILINE)
DEFINITION = re.compile(r"^\s*(?:Eq\. )?(\(\d+\)|Algorithm \d) of \[Huo2025\]_", re.MULTILINE)


def named(text: str) -> set[str]:
    """Equations that a docstring names: (3), also within Eqs. (8)-(10)."""
    found = set(re.findall(r"Algorithm \d", text))
    for first, last in re.findall(r"\((\d+)\)(?:-\((\d+)\))?", text):
        found |= {f"({n})" for n in range(int(first), int(last or first) + 1)}
    return found


def test_every_equation_and_algorithm_has_one_row() -> None:
    assert [name for name, _ in ROWS] == [f"({n})" for n in range(1, 22)] + ["Algorithm 1", "Algorithm 2"]


@pytest.mark.parametrize(("name", "where"), [row for row in ROWS if row[1] != "statement"], ids=lambda value: value)
def test_the_function_exists_and_names_its_equation(name: str, where: str) -> None:
    module, function = where.strip("`").split(":")
    target = getattr(importlib.import_module(module), function)
    documents = [inspect.getdoc(target) or ""]
    if inspect.isclass(target):
        documents += [inspect.getdoc(member) or "" for member in vars(target).values() if callable(member)]
    documents.append(inspect.getdoc(importlib.import_module(module)) or "")
    assert name in set().union(*map(named, documents))


def test_no_equation_is_defined_twice() -> None:
    """A docstring line that begins with an equation's number defines it."""
    places: dict[str, list[str]] = {}
    for path in sorted((ROOT / "src").rglob("*.py")):
        for name in DEFINITION.findall(path.read_text(encoding="utf-8")):
            places.setdefault(name, []).append(path.name)
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
    assert len(places) >= 12
