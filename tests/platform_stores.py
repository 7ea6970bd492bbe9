"""Stores on SQLite and PostgreSQL, and a few tasks."""

from __future__ import annotations

import uuid
from pathlib import Path

import pandas as pd

from mfcp.data.log.coercion import coerce
from mfcp.data.log.schema import TASKS
from mfcp.platform.state.store import Store


def url(folder: Path) -> str:
    return f"sqlite:///{folder}/platform.db"


def some_tasks(names: list[str], graph: str | None = None) -> dict[str, pd.DataFrame]:
    """Tables of a few tasks, all with one graph or none."""
    rows = [{c.name: None for c in TASKS.columns} | {"task_id": n, "model": "vit", "graph_id": graph} for n in names]
    return {"tasks": coerce(TASKS, pd.DataFrame(rows, dtype=object)).frame}


def pending(store: Store) -> list[str]:
    return list(store.pending()["tasks"]["task_id"])


def new_database(port: int) -> str:
    """URL of an empty database on the server at a port."""
    import psycopg

    name = f"d{uuid.uuid4().hex}"
    with psycopg.connect(f"host=127.0.0.1 port={port} user=mfcp dbname=postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return f"postgresql+psycopg://mfcp@127.0.0.1:{port}/{name}"
