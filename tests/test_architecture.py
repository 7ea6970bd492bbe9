"""docs/architecture.md is a map of the tree: its picture is drawn from the layers, and what it names is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from architecture import CAPTIONS, PICTURE, WAY, picture
from test_layers import LAYERS

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
FAMILIES = re.findall(r"^\| ([^|]+) \| `(src/[\w/]+)` \| `(\w+)` of `(src/[\w/]+\.py)` \|$", PAGE, flags=re.MULTILINE)


def test_the_picture_is_drawn_from_the_layers() -> None:
    assert PICTURE.read_text(encoding="utf-8") == picture(LAYERS), "run `python tests/architecture.py`"


def test_a_unit_that_gets_another_layer_changes_the_picture() -> None:
    lower = {**LAYERS, "mfcp": (LAYERS["mfcp"][0] | {"stages"}, *LAYERS["mfcp"][1:])}
    assert picture(lower) != picture(LAYERS)


def test_numbers_and_captions_are_of_units_that_exist() -> None:
    units = {(package, unit) for package, layers in LAYERS.items() for line in layers for unit in line}
    assert set(WAY) <= units
    assert {("mfcp", unit) for unit in CAPTIONS} <= units


def test_every_step_of_the_way_is_in_the_picture_and_on_the_page() -> None:
    steps = [int(number) for number in re.findall(r"^(\d+)\. \*\*", PAGE, flags=re.MULTILINE)]
    assert steps == sorted(set(WAY.values()))


def test_every_path_on_the_page_exists() -> None:
    paths = set(re.findall(r"`((?:src|tests|flows)/[\w./]*)`", PAGE))
    assert len(paths) > 20
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize(("what", "folder", "base", "file"), FAMILIES)
def test_a_family_s_base_and_members_are_where_the_page_says(what: str, folder: str, base: str, file: str) -> None:
    def classes(path: Path) -> list[ast.ClassDef]:
        return [
            node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.ClassDef)
        ]

    assert base in {node.name for node in classes(ROOT / file)}
    derived = [
        node.name
        for path in (ROOT / folder).glob("*.py")
        for node in classes(path)
        if base in {ast.unparse(parent) for parent in node.bases}
    ]
    assert derived, f"{what}: no class in {folder} is derived from {base}"


def test_the_page_tells_of_every_family_that_has_a_folder() -> None:
    assert {base for _, _, base, _ in FAMILIES} == {
        "Deciding",
        "Placement",
        "Predictor",
        "Forecaster",
        "Rule",
        "Method",
        "Engine",
        "Source",
        "Ordering",
        "Shares",
    }
