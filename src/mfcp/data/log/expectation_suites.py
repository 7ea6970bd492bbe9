"""The log schema as suites of Great Expectations: the files of a context, made of the schema without that package.

    python -m mfcp.data.log.expectation_suites [gx]

writes them. What an operator has added to a suite stays.
"""

from __future__ import annotations

import json
import sys
import uuid
from pathlib import Path
from typing import Any

import yaml

from mfcp.border.json_text import read_json
from mfcp.data.log.schema import SCHEMA, ForeignKey, Table
from mfcp.errors import DataError
from mfcp.files import replacing, write_json

SOURCE = "schema"
"""`meta.origin` of an expectation that comes from the schema; any other one is an operator's."""
_IN_SET = "expect_column_values_to_be_in_set"
_SPACE = uuid.UUID("6f1d6b52-4a5e-5a6f-9d2b-7d1f0c0a4c11")  # ids depend on names alone


def holds(kind: str, columns: tuple[str, ...]) -> str:
    """The column that says whether a row's cells convert, or name a row of another table: no single cell shows it."""
    return f"{kind}({', '.join(columns)}) holds"


def expectations(table: Table) -> list[dict[str, Any]]:
    """What the schema expects of a table, in its order."""
    made = []
    for column in table.columns:
        converts = {"column": holds("type", (column.name,)), "value_set": [True]}
        own: list[tuple[str, str, dict[str, Any]]] = [("type", _IN_SET, converts)]
        if not column.nullable:
            own.append(("missing", "expect_column_values_to_not_be_null", {"column": column.name}))
        if column.low is not None and column.high is not None:
            bounds = {"column": column.name, "min_value": column.low, "max_value": column.high}
            own.append(("range", "expect_column_values_to_be_between", bounds | {"strict_min": column.above}))
        if column.values:
            own.append(("values", _IN_SET, {"column": column.name, "value_set": list(column.values)}))
        made += [_expectation(table, kind, name, kwargs, column.expected, (column.name,)) for kind, name, kwargs in own]
    if table.unique and len(table.key) == 1:
        name, once = "expect_column_values_to_be_unique", {"column": table.key[0]}
        made.append(_expectation(table, "unique", name, once, "occurs once", table.key))
    elif table.unique:
        name, pairs = "expect_compound_columns_to_be_unique", {"column_list": list(table.key)}
        pairs |= {"ignore_row_if": "any_value_is_missing"}  # type: ignore[dict-item]
        made.append(_expectation(table, "unique", name, pairs, "occurs once", table.key))
    return made + [_reference(table, foreign) for foreign in table.foreign]


def context_files(folder: Path) -> dict[str, Any]:
    """Path under the context's folder → content of every file of it; an operator's expectations are of `folder`."""
    files: dict[str, Any] = {".gitignore": "uncommitted/\nplugins/\n"}
    for name, table in SCHEMA.items():
        suite, validation = _id("suite", name), _id("validation", name)
        files[f"expectations/{name}.json"] = {
            "expectations": expectations(table) + own_expectations(folder).get(name, []),
            "id": suite,
            "meta": {"great_expectations_version": "1.24.1"},
            "name": name,
            "notes": f"{table.meaning}. What has meta.origin '{SOURCE}' comes from the log schema; add your own.",
        }
        files[f"validation_definitions/{name}.json"] = {
            "data": {
                "asset": {"id": _id("asset", name), "name": name},
                "batch_definition": {"id": _id("batch", name), "name": "rows"},
                "datasource": {"id": _id("datasource", "log"), "name": "log"},
            },
            "id": validation,
            "name": name,
            "suite": {"id": suite, "name": name},
        }
        files[f"checkpoints/{name}.json"] = {
            "actions": [],
            "id": _id("checkpoint", name),
            "name": name,
            "result_format": "SUMMARY",
            "validation_definitions": [{"id": validation, "name": name}],
        }
    return files | {"great_expectations.yml": _settings()}  # the last one: where it is, the context is whole


def write_context(folder: Path) -> None:
    """Write every file of the context; what an operator has added to a suite stays.

    Raises:
        DataError: a suite of the folder is damaged, or a file cannot be written.
    """
    for name, content in context_files(folder).items():
        if isinstance(content, str):
            with replacing(folder / name) as path:
                path.write_text(content, encoding="utf-8")
        else:
            write_json(folder / name, content)


def own_expectations(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Table → the expectations of its suite that are not the schema's; only tables that have one.

    Raises:
        DataError: a suite is damaged.
    """
    found = {}
    for name in SCHEMA:
        path = folder / "expectations" / f"{name}.json"
        if not path.is_file():
            continue
        try:
            every = read_json(path)["expectations"]
            own = [one for one in every if (one.get("meta") or {}).get("origin") != SOURCE]
        except (KeyError, TypeError, AttributeError):
            raise DataError(f"{path}: not a suite of Great Expectations; take the file from version control") from None
        if own:
            found[name] = own
    return found


def _expectation(
    table: Table, kind: str, name: str, kwargs: dict[str, Any], expected: str, columns: tuple[str, ...]
) -> dict[str, Any]:
    label = f"{kind}({', '.join(columns)})"
    return {
        "id": _id(table.name, label),
        "kwargs": kwargs,
        "meta": {"origin": SOURCE, "constraint": label, "expected": expected},
        "severity": "critical",
        "type": name,
    }


def _reference(table: Table, foreign: ForeignKey) -> dict[str, Any]:
    expected = f"a valid row of {foreign.target} ({', '.join(foreign.target_columns)})"
    kwargs = {"column": holds("reference", foreign.columns), "value_set": [True]}
    return _expectation(table, "reference", _IN_SET, kwargs, expected, foreign.columns)


def _settings() -> str:
    """great_expectations.yml: where its files lie, one source of tables in memory, no telemetry."""
    stores = {
        "expectations_store": ("ExpectationsStore", "expectations/"),
        "validation_results_store": ("ValidationResultsStore", "uncommitted/validations/"),
        "checkpoint_store": ("CheckpointStore", "checkpoints/"),
        "validation_definition_store": ("ValidationDefinitionStore", "validation_definitions/"),
    }
    backend = "TupleFilesystemStoreBackend"
    assets = {
        name: {
            "type": "dataframe", "id": _id("asset", name), "batch_metadata": {},
            "batch_definitions": {"rows": {"id": _id("batch", name), "partitioner": None}},
        }
        for name in SCHEMA
    }  # fmt: skip
    content = {
        "config_version": 4.0,
        "plugins_directory": "plugins/",
        "stores": {
            name: {
                "class_name": kind,
                "store_backend": {"class_name": backend, "base_directory": place, "suppress_store_backend_id": True},
            }
            for name, (kind, place) in stores.items()
        },
        "expectations_store_name": "expectations_store",
        "validation_results_store_name": "validation_results_store",
        "checkpoint_store_name": "checkpoint_store",
        "data_docs_sites": {
            "local_site": {
                "class_name": "SiteBuilder",
                "show_how_to_buttons": False,
                "store_backend": {"class_name": backend, "base_directory": "uncommitted/data_docs/local_site/"},
                "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
            }
        },
        "fluent_datasources": {"log": {"type": "pandas", "id": _id("datasource", "log"), "assets": assets}},
        "analytics_enabled": False,
        "data_context_id": _id("context", "log"),
        "progress_bars": {"globally": False, "metric_calculations": False},
    }
    return str(yaml.safe_dump(content, sort_keys=False))


def _id(*names: str) -> str:
    return str(uuid.uuid5(_SPACE, json.dumps(names)))


if __name__ == "__main__":
    write_context(Path(sys.argv[1] if len(sys.argv) > 1 else "gx"))
