"""Deliveries of a few rows to a home of its own."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pandas as pd

from mfcp.data.log.coercion import coerce
from mfcp.data.log.schema import SCHEMA
from mfcp.data.log.tables import Tables, read_tables, write_tables
from mfcp.platform.intake.inbox import Delivery, ingest
from mfcp.platform.state.store import Store


def table(name: str, rows: list[dict[str, Any]]) -> pd.DataFrame:
    columns = [column.name for column in SCHEMA[name].columns]
    return coerce(SCHEMA[name], pd.DataFrame(rows, columns=columns, dtype=object)).lenient


def log(k: int = 0, tasks: int = 3) -> Tables:
    """A small log: tasks on two clusters that every log shares, and one graph."""
    names = [f"task{k}-{i}" for i in range(tasks)]
    return {
        "tasks": table("tasks", [{"task_id": name, "graph_id": f"graph{k}", "flops": 1e9 * (k + 1)} for name in names]),
        "clusters": table("clusters", [{"cluster_id": name} for name in "ab"]),
        "runs": table("runs", [run(f"{name}/{c}", name, c) for name in names for c in "ab"]),
        "nodes": table("nodes", [{"graph_id": f"graph{k}", "node_id": i, "op": "add"} for i in range(3)]),
        "edges": table("edges", [{"graph_id": f"graph{k}", "src": s, "dst": d} for s, d in ((0, 1), (0, 1), (1, 2))]),
    }


def run(run_id: str, task_id: str, cluster_id: str, seconds: Any = 10.0, **cells: Any) -> dict[str, Any]:
    row = {"run_id": run_id, "task_id": task_id, "cluster_id": cluster_id, "duration_s": seconds, "attempt": 1}
    return row | {"status": "succeeded"} | cells


class Home:
    """A platform's folder; a version of the log is its digest in a file."""

    def __init__(self, path: Path) -> None:
        self.path, self.log, self.versions = path, path / "repo" / "data" / "log", path / "versions"
        for name in ("inbox", "archive", "quarantine", "repo/data"):
            (path / name).mkdir(parents=True, exist_ok=True)

    def put(self, name: str, tables: Tables, form: str = "parquet") -> None:
        if len(tables) == 1:
            write_tables(tables, self.path / "written", format=form)  # type: ignore[arg-type]
            (only,) = tables
            os.rename(self.path / "written" / f"{only}.{form}", self.path / "inbox" / name)
        else:
            write_tables(tables, self.path / "inbox" / name, format=form)  # type: ignore[arg-type]

    def ingest(self) -> list[Delivery]:
        return ingest(self.path, self.log, Store(f"sqlite:///{self.path}/platform.db"), self.version)

    def version(self, message: str) -> None:
        self.versions.write_text(digest(self.log))

    def tables(self) -> Tables:
        return read_tables(self.log)


def digest(folder: Path) -> str:
    whole = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        whole.update(str(path.relative_to(folder)).encode() + (path.read_bytes() if path.is_file() else b""))
    return whole.hexdigest()


def damaged(tables: Tables, damage: str, at: int) -> Tables:
    runs = tables["runs"].astype({"duration_s": object})
    place = at % len(runs)
    match damage:
        case "task":
            tables["tasks"] = tables["tasks"].drop(index=at % 3)
        case "cluster":
            runs.loc[place, "cluster_id"] = "elsewhere"
        case "type":
            runs.loc[place, "duration_s"] = "soon"
        case "key":
            runs.loc[place, "run_id"] = runs.loc[0, "run_id"]
        case "graph":
            tables["nodes"] = tables["nodes"].drop(index=at % 3)
        case "content":
            runs.loc[place, "duration_s"] = 99.0
    return tables | {"runs": runs}
