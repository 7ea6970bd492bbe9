"""What has one definition: who constructs what, found in the sources."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROGRAM = [*sorted((ROOT / "src").rglob("*.py")), *sorted((ROOT / "flows").glob("*.py"))]


def callers(name: str) -> list[tuple[str, str]]:
    """(file, function) of every call of a name: `Name(…)`, not a method of it."""
    found = []
    for path in PROGRAM:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef):
                calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
                if any(isinstance(call.func, ast.Name) and call.func.id == name for call in calls):
                    found.append((str(path.relative_to(ROOT)), function.name))
    return found


@pytest.mark.parametrize(("name", "place"), [("Belief", ("src/mfcp/rules/base.py", "of"))])
def test_one_place_constructs(name: str, place: tuple[str, str]) -> None:
    assert callers(name) == [place]
