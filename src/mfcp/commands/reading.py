"""What commands read beside their options: a log, own members of families (`--with`); and the numbers in options.

An installed package names its modules under the entry-point group `mfcp`; they are imported with the members of mfcp
(`mfcp.registry.import_members`). A file is executed when `--with FILE.py` or the variable MFCP_WITH names it; the
option sets the variable, so that processes of the command execute it as well. Imports nothing heavy until a command
runs, as `mfcp --help` reads the option here.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mfcp.errors import SettingsError

if TYPE_CHECKING:
    from mfcp.data.validated_log import ValidatedLog
    from mfcp.registry import Registered
    from mfcp.settings import Settings


def whole_number(least: int) -> Callable[[str], int]:
    """Type of an argument: a whole number of at least so much."""

    def read(text: str) -> int:
        try:
            if (value := int(text)) >= least:
                return value
        except ValueError:
            pass
        raise argparse.ArgumentTypeError(f"expected a whole number of at least {least}, got {text}")

    return read


@contextmanager
def read_log(folder: Path, *, max_bad_share: float, names_bad_rows: bool = False) -> Iterator[ValidatedLog]:
    """The validated log of a folder, and a warning where rows are left out, unless the command itself names them.

    Other arguments and errors are those of `mfcp.data.validated_log.validated_log`.
    """
    from mfcp.data.log.expectations import of_working_folder
    from mfcp.data.validated_log import validated_log
    from mfcp.progress import progress

    with ExitStack() as stack:
        with progress(f"read and validate {folder}"):
            expectations = of_working_folder()
            log = stack.enter_context(validated_log(folder, max_bad_share=max_bad_share, expectations=expectations))
        for text in log.findings.report["warnings"]:  # now, since they may say why a command cannot go on
            print(f"warning: {text}")
        if log.bad_rows and not names_bad_rows:
            print(f"warning: {log.bad_rows} rows break the schema and are left out; `mfcp check` names them")
        yield log


def default_params() -> Path:
    """params.yaml of the working folder, else the one that mfcp came with: in a checkout a link to that of its root."""
    import mfcp

    for path in (Path("params.yaml"), Path(mfcp.__file__).resolve().parent / "default_params.yaml"):
        if path.is_file():
            return path
    raise SettingsError("no params.yaml here; run in the repository root or pass --params FILE")


def read_params(given: Path | None) -> Settings:
    """Those of `--params`, else of `default_params`.

    Raises:
        SettingsError: as `Settings.load`, or the file has limits that do not hold here.
    """
    from mfcp.border.limits import limits
    from mfcp.settings import Settings

    settings = Settings.load(given or default_params())
    if given is not None and settings.content.get("limits") and settings.section("limits") != limits():
        raise SettingsError(
            f"{given}: limits: what may be read is bounded by params.yaml of the working folder; run where this file "
            "has that name, or take the section out"
        )
    return settings


def add_option(parser: Any) -> None:
    """Add `--with`."""
    parser.add_argument(
        "--with", dest="extensions", type=Path, action="append", default=[], metavar="FILE.py",
        help="own methods, rules, predictors, engines, policies: a Python file, which is executed; may be repeated",
    )  # fmt: skip


@dataclass(frozen=True)
class Extension:
    """What a file added.

    Attributes:
        members: classes of families that it defines, each registered by its name.
        rows: rows of methods to compare or release: those of its mapping `METHODS`, else one for each method.
    """

    members: tuple[type[Registered], ...]
    rows: dict[str, Any]


def load_members(options: argparse.Namespace) -> list[Extension]:
    """Execute the files of `--with`, which registers what they define.

    Raises:
        DataError: a file is missing or fails, with its line.
        SettingsError: it defines no member of a family, or one whose name is taken.
    """
    from mfcp.registry import FILES

    known = [name for name in os.environ.get(FILES, "").split(os.pathsep) if name]
    os.environ[FILES] = os.pathsep.join(dict.fromkeys([*known, *(str(path.resolve()) for path in options.extensions)]))
    return [_load(path) for path in options.extensions]


def settings_with(options: argparse.Namespace, settings: Settings) -> Settings:
    """The settings with the rows of methods that the files of `--with` add behind its own, which win where labels are
    the same; errors as `load_members`.
    """
    from mfcp.settings import Settings

    rows = {label: row for extension in load_members(options) for label, row in extension.rows.items()}
    methods = rows | (settings.content.get("methods") or {})
    return Settings(settings.content | {"methods": methods}, settings.where) if rows else settings


def _load(path: Path) -> Extension:
    from mfcp.registry import Registered, family_of, imported_file

    program = imported_file(path)
    members = tuple(
        value
        for value in vars(program).values()
        if isinstance(value, type)
        and issubclass(value, Registered)
        and value.__module__ == program.__name__
        and value.name in value.members
    )
    rows = getattr(program, "METHODS", None)
    if rows is None:
        rows = {own.name: {"kind": own.name} for own in members if family_of(own).__name__ == "Method"}
    if not isinstance(rows, dict):
        raise SettingsError(f"{path}: METHODS is a {type(rows).__name__}; expected a mapping of labels to rows")
    if not members and not rows:
        raise SettingsError(
            f"{path}: defines no member of a family; expected a class derived from Method, Rule, Predictor, "
            "Forecaster, Engine or a policy, with a `name`"
        )
    return Extension(members, rows)
