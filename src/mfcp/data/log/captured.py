"""Captured graphs in a folder of the log schema: a task's row, adding to what is there, and checks of what is there."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from mfcp.data.log.coercion import coerce
from mfcp.data.log.constraints import findings
from mfcp.data.log.formats import WRITERS
from mfcp.data.log.quarantine import quarantine_findings
from mfcp.data.log.schema import SCHEMA, Table
from mfcp.data.log.tables import Tables, find_table, read_table, sole_writer
from mfcp.emulator.zoo import activations
from mfcp.errors import DataError
from mfcp.files import output_folder, replacing

if TYPE_CHECKING:
    from mfcp.tasks.capture.scaling import Captured

_PATIENCE_S = 60.0  # for another command that adds to the folder
_PRECISION = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float64": "fp64"}
TRAINING, BATCHES = "/train", "/batch"
"""End the names of the further graphs of a task: its training step, and the forward pass of batches above one."""


@dataclass(frozen=True)
class Model:
    """What was captured.

    Attributes:
        name: of the model.
        forward: its forward pass, of one sample.
        batched: its forward pass where larger batches run other operators.
        step: its training step with `optimizer`; None where it only infers.
        batch: samples of one step.
        input_size: pixels of a side or tokens, where known.
        domain: cv or nlp, where known.
    """

    name: str
    forward: Captured
    step: Captured | None
    optimizer: str | None
    batch: int
    input_size: int | None = None
    domain: str | None = None
    batched: Captured | None = None

    @property
    def graphs(self) -> list[Captured]:
        """Its graphs: the forward pass, and the further ones that there are."""
        return [graph for graph in (self.forward, self.batched, self.step) if graph is not None]

    def tables(self) -> Tables:
        """Tables nodes, edges and tasks with this model alone."""
        nodes = self.forward.nodes
        heavy = nodes.loc[nodes["flops"] > 0, "dtype"]
        row = {
            "task_id": self.forward.graph_id,
            "domain": self.domain,
            "model": self.name,
            "batch_size": self.batch,
            "input_size": self.input_size,
            "precision": _PRECISION.get(heavy.iloc[0]) if len(heavy) else None,
            "phase": "infer" if self.step is None else "train",
            "param_count": int(nodes["param_count"].sum()),
            "flops": float(nodes["flops"].sum()),
            "activations": float(activations(nodes).sum()),
            "graph_id": self.forward.graph_id,
            "optimizer": self.optimizer,
            "flops_train": None if self.step is None else float(self.step.nodes["flops"].sum()),
        }
        return {
            "nodes": pd.concat([graph.nodes for graph in self.graphs], ignore_index=True),
            "edges": pd.concat([graph.edges for graph in self.graphs], ignore_index=True),
            "tasks": coerce(SCHEMA["tasks"], pd.DataFrame([row])).frame.drop(columns=["samples", "family"]),
        }


def add_model(folder: Path, model: Model, *, replace: bool) -> None:
    """Add a model's task and graphs to a folder in the log schema; each table keeps its format.

    The task is written last, after its graphs: what a killed call leaves is replaced by the next one.

    Raises:
        DataError: the folder has a task or graph of that name and `replace` is off, cannot be written, or another
            command adds to it.
    """
    with sole_writer(output_folder(folder), wait_s=_PATIENCE_S):
        _add(folder, model, replace=replace)


def _add(folder: Path, model: Model, *, replace: bool) -> None:
    name = model.forward.graph_id
    ours = dict.fromkeys(("nodes", "edges"), ("graph_id", name, name + TRAINING, name + BATCHES))
    paths = {table: find_table(folder, table) for table in ("nodes", "edges", "tasks")}
    held = {table: read_table(path, SCHEMA[table]) for table, path in paths.items() if path is not None}
    finished = "tasks" in held and held["tasks"][["task_id", "graph_id"]].astype("str").isin([name]).to_numpy().any()
    merged: dict[Path, pd.DataFrame] = {}
    for table, made in model.tables().items():
        path, own = paths[table], [column.name for column in SCHEMA[table].columns]
        # In the order in which a table is read, so that one that is added to equals one that is made.
        rows = made[[*(column for column in own if column in made), *(column for column in made if column not in own)]]
        if path is not None:
            old = held[table]
            key, *names = ours.get(table, ("task_id", name))
            known = old[key].astype("str").isin(names)
            if known.any() and not replace and (finished or not _same(SCHEMA[table], old[known], rows)):
                raise DataError(
                    f"{path}: '{old.loc[known, key].iloc[0]}' is there already; pass --force to replace it, or --name "
                    "to call this one otherwise"
                )
            columns = [*old, *(column for column in rows if column not in old)]
            kept = old[~known].dropna(axis="columns", how="all")
            rows = (pd.concat([kept, rows], ignore_index=True) if len(kept) else rows).reindex(columns=columns)
        merged[path or folder / f"{table}.parquet"] = rows
    with ExitStack() as files:
        for path, rows in reversed(merged.items()):  # a file takes its place when its block ends: the first one last
            WRITERS[path.suffix](rows, files.enter_context(replacing(path)))


def _same(table: Table, old: pd.DataFrame, new: pd.DataFrame) -> bool:
    """Whether the rows are those that the same capture left when it was killed; others are not ours to replace."""
    names = [column.name for column in table.columns]
    hashes = (pd.util.hash_pandas_object(coerce(table, own).frame[names], index=False) for own in (old, new))
    return sorted(next(hashes)) == sorted(next(hashes))


def read_graphs(folder: Path) -> Tables:
    """Tables nodes and edges of a folder; no row of them breaks a constraint of the schema.

    Raises:
        DataError: no such folder or table, a damaged file, or the first row that breaks a constraint.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; expected one that holds nodes.parquet and edges.parquet")
    tables: Tables = {}
    for name in ("nodes", "edges"):
        path = find_table(folder, name)
        if path is None:
            raise DataError(f"{folder}: no table '{name}'; expected {name}.parquet, .csv or .jsonl")
        coerced = coerce(SCHEMA[name], read_table(path, SCHEMA[name]))
        found: list[Any] = findings(SCHEMA[name], coerced, {})  # references are looked at when graphs are built
        bad = quarantine_findings(SCHEMA[name], coerced, found)
        if len(bad):
            first = bad.iloc[0]
            raise DataError(
                f"{path}: row {first['row']}, {first['column']} is '{first['value']}', expected {first['expected']} "
                f"({bad['row'].nunique()} bad rows); mend or drop it"
            )
        tables[name] = coerced.frame
    if tables["nodes"].empty:
        raise DataError(f"{folder}: table 'nodes' has no rows; expected operators")
    return tables
