"""YAML that nobody vouches for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mfcp.border.bounds import Limits
from mfcp.border.regular import opened, printable, refusing
from mfcp.errors import DataError

_DIGITS = 100  # of a number; Python takes minutes for those of a million


def read_yaml(path: Path, bounds: Limits, *, expected: str = "YAML") -> Any:
    """The content of a YAML file.

    Raises:
        DataError: no such file, too large, not YAML.
    """
    with opened(path, bounds.yaml_mib, expected=expected) as file:
        return parse_yaml(file.read(), path, bounds)


def parse_yaml(content: bytes | str, where: object, bounds: Limits) -> Any:
    """Parse one YAML document.

    Raises:
        DataError: not YAML, deeper than `bounds.depth`, or with more than `bounds.values` values once every alias is
            followed: ten lines of aliases of aliases hold billions, which hang whoever walks through them.
    """
    import yaml

    class Loader(yaml.SafeLoader):
        """Without numbers of any length."""

        def construct_scalar(self, node: Any) -> Any:
            if node.tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float") and len(node.value) > _DIGITS:
                raise yaml.constructor.ConstructorError(
                    None, None, f"a number of {len(node.value)} characters", node.start_mark
                )
            return super().construct_scalar(node)

    with refusing(where, "valid YAML"):
        value = yaml.load(content, Loader)
    count, deep = _sizes(value, {}, 1, bounds.depth)
    if count > bounds.values or deep > bounds.depth:
        most = f"{bounds.values} values" if count > bounds.values else f"{bounds.depth} mappings within each other"
        raise DataError(f"{printable(where)}: more than {most}; see `limits` of params.yaml")
    return value


def _sizes(value: Any, known: dict[int, tuple[int, int]], level: int, most: int) -> tuple[int, int]:
    """How many values a value holds with aliases followed, and how deep; one that holds itself is infinitely deep."""
    if not isinstance(value, dict | list):
        return 1, 0
    if level > most:
        return 1, most + 1
    if id(value) not in known:
        known[id(value)] = (1, most + 1)  # met again below itself
        parts = [*value, *value.values()] if isinstance(value, dict) else value
        sizes = [_sizes(part, known, level + 1, most) for part in parts]
        known[id(value)] = (1 + sum(size for size, _ in sizes), 1 + max((deep for _, deep in sizes), default=0))
    return known[id(value)]
