"""Which modules run with a module: its imports, theirs, and so on. Read from the sources, nothing is imported.

Results depend on that code. Jobs of the study carry its digest in their key, and a test holds the `deps` of `dvc.yaml`
to it.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from mfcp.settings import FAMILIES

ROOT = Path(__file__).resolve().parents[2]  # the folder that holds the package mfcp

STAGE_FAMILIES = {
    "pretrain": ("pretrain",),
    "finetune": ("methods",),
    "evaluate": ("methods",),
    "release": ("methods",),
}
"""Stage → the sections of its settings that name members of families."""

PLUMBING = frozenset({"mfcp"}).union(
    f"mfcp.{name}"
    for name in (
        "arrays", "border.bounds", "border.json_text", "border.limits", "border.regular", "border.yaml_text", "errors",
        "files", "progress", "registry", "settings", "stages.base", "environment", "threads", "tracking",
    )
)  # fmt: skip
"""Modules without formulas: a change of one of them makes no result stale."""


def module_name(path: Path) -> str:
    """Dotted name of a source file."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> dict[str, Path]:
    """Every module of mfcp by its dotted name."""
    return {module_name(path): path for path in sorted((ROOT / "mfcp").rglob("*.py"))}


def module_of(name: str) -> str | None:
    """The module of mfcp that a dotted name is, or lies in."""
    while name and name not in modules():
        name = name.rpartition(".")[0]
    return name or None


@cache
def imported(path: Path, *, run_only: bool = False) -> frozenset[str]:
    """Dotted names that a file imports anywhere, functions included; `from a import b` gives `a.b`.

    Args:
        path: a source file; its imports are absolute.
        run_only: leave out what only a type checker sees.
    """
    names: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if run_only and isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        waiting += ast.iter_child_nodes(node)
    return frozenset(names)


@cache
def closure(module: str) -> frozenset[str]:
    """The module and every module of mfcp that runs with it, plumbing and mere namespaces left out.

    A call of `mfcp.registry.import_members` brings every module of the package that it names.
    """
    found: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        path = modules()[name]
        if name in found or name in PLUMBING or _is_namespace(path):
            continue
        found.add(name)
        waiting += [target for entry in imported(path, run_only=True) if (target := module_of(entry))]
        waiting.append(name.rpartition(".")[0])
        waiting += [other for package in _families(path) for other in members(package)]
    return frozenset(found)


def members(package: str) -> list[str]:
    """The modules of a package, those of its sub-packages as well."""
    return [name for name in modules() if name.startswith(f"{package}.")]


@cache
def stage_code(stage: str) -> frozenset[str]:
    """The modules whose code a stage of the pipeline runs, members of the families that its settings name included."""
    name = f"mfcp.stages.{stage}"
    families = [package for section in STAGE_FAMILIES.get(stage, ()) for package in FAMILIES[section]]
    return closure(name).union(*(closure(member) for package in families for member in members(package)))


def _is_namespace(path: Path) -> bool:
    """Whether this is an `__init__` that imports no module of mfcp when it is run."""
    return path.name == "__init__.py" and not any(name.startswith("mfcp.") for name in imported(path, run_only=True))


def _families(path: Path) -> set[str]:
    """Packages that stand as text in a file which calls `import_members`."""
    if not any(name.endswith(".import_members") for name in imported(path)):
        return set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return {text for text in texts if text in modules() and modules()[text].name == "__init__.py"}
