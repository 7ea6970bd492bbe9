"""params.yaml as typed, frozen sections; every unknown key or method is an error naming its path."""

from __future__ import annotations

import importlib
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from mfcp.border.bounds import Limits
from mfcp.border.yaml_text import read_yaml
from mfcp.errors import DataError, SettingsError
from mfcp.registry import explain, import_members

if TYPE_CHECKING:
    from mfcp.methods.base import Method

# Each section's class stands beside the code that it configures and is imported when the section is read,
# so that a stage pays only for what it uses.
SECTIONS = {
    "ingest": "mfcp.stages.ingest:IngestSettings",
    "validate": "mfcp.stages.validate:ValidateSettings",
    "pool": "mfcp.study.study_pool:PoolSettings",
    "featurize": "mfcp.study.featurize:FeaturizeSettings",
    "matching": "mfcp.study.setting:RoundSettings",
    "pretrain": "mfcp.methods.pretrain:PretrainSettings",
    "finetune": "mfcp.methods.base:FinetuneSettings",
    "evaluate": "mfcp.evaluation.metrics:EvaluateSettings",
    "release": "mfcp.release.fitting:ReleaseSettings",
    "platform": "mfcp.platform.settings:PlatformSettings",
    "limits": "mfcp.border.bounds:Limits",
}


FAMILIES = {"pretrain": ("mfcp.predictors",), "methods": ("mfcp.predictors", "mfcp.rules", "mfcp.methods")}
"""Section → the packages whose members its rows name by kind."""


class Settings:
    """The sections of a params file, each validated when first asked for.

    Args:
        content: section name → mapping, as YAML gives it.
        where: the file's name for messages.

    Raises:
        SettingsError: a section that does not exist, or is no mapping.
    """

    def __init__(self, content: dict[str, Any], where: str = "params.yaml") -> None:
        unknown = sorted(set(content) - set(SECTIONS) - {"methods"})
        if unknown:
            known = ", ".join([*SECTIONS, "methods"])
            raise SettingsError(f"{where}: unknown section '{unknown[0]}'; known: {known}")
        for name, section in content.items():
            if not isinstance(section, dict | None):
                raise SettingsError(f"{where}: {name}: expected a mapping, got {type(section).__name__}")
        self.content = content
        self.where = where

    @staticmethod
    def load(path: Path) -> Settings:
        """Read a params file.

        Raises:
            SettingsError: missing file, invalid YAML, or not a mapping of sections.
        """
        try:
            content = read_yaml(Path(path), Limits(), expected="settings; run in the repository root")
        except DataError as error:
            raise SettingsError(str(error)) from None
        if not isinstance(content, dict):
            raise SettingsError(f"{path}: expected a mapping of sections, got {type(content).__name__}")
        return Settings(content, str(path))

    def section(self, name: str) -> Any:
        """The validated section; a missing one takes all its defaults.

        Raises:
            SettingsError: naming every wrong key of the section.
        """
        if name in FAMILIES:
            for package in FAMILIES[name]:
                import_members(package)
        module, _, cls = SECTIONS[name].partition(":")
        try:
            return getattr(importlib.import_module(module), cls)(**(self.content.get(name) or {}))
        except ValidationError as error:
            raise SettingsError(f"{self.where}: {name}.{explain(error)}") from None
        except SettingsError as error:
            raise SettingsError(f"{self.where}: {name}: {error}") from None
        except TypeError as error:
            raise SettingsError(f"{self.where}: {name}: keys must be text ({error})") from None

    @cached_property
    def methods(self) -> dict[str, Method]:
        """label → method, in the order of the file.

        Raises:
            SettingsError: an unknown kind, rule, gradient or field, naming the row.
        """
        from mfcp.methods.base import Method, register_members

        register_members()
        rows = self.content.get("methods") or {}
        if not isinstance(rows, dict) or not rows:
            raise SettingsError(f"{self.where}: methods must map at least one label to a method")
        result = {}
        for label, row in rows.items():
            try:
                result[str(label)] = Method.parse(row)
            except SettingsError as error:
                raise SettingsError(f"{self.where}: methods.{label}: {error}") from None
        return result
