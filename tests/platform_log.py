"""A platform's log made by formula, and releases learned from it: what tests of the platform run on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from mfcp.data.log.coercion import coerce
from mfcp.data.log.schema import SCHEMA
from mfcp.data.log.tables import Tables

PARAMS = Path(__file__).parents[1] / "params.yaml"
CLUSTERS = ("a", "b", "c")


def small_log(tasks: int = 90, seed: int = 0, *, runs: int = 6, start: int = 0) -> Tables:
    """Tables of a log: times grow with FLOPs, each cluster favours one of three kinds of model."""
    rng = np.random.default_rng(seed)
    kind, flops = rng.integers(3, size=tasks), np.exp(rng.normal(22, 0.6, tasks))
    names = [f"task{start + j}" for j in range(tasks)]
    rows: dict[str, list[dict[str, Any]]] = {"tasks": [], "runs": []}
    for j, name in enumerate(names):
        rows["tasks"].append(
            {"task_id": name, "domain": ("cv", "nlp", "speech")[kind[j]], "model": f"{'xyz'[kind[j]]}{'uvw'[j % 3]}net",
             "batch_size": 8, "input_size": 64, "precision": "fp32", "phase": "train",
             "param_count": int(flops[j] / 99), "flops": flops[j], "activations": flops[j] / 1000, "samples": 1e4,
             "graph_id": f"g{kind[j]}"}
        )  # fmt: skip
        for i, cluster in enumerate(CLUSTERS):
            seconds = flops[j] / 2e7 * (0.4 if i == kind[j] else 1.5)
            for attempt in range(runs):
                at = pd.Timestamp("2026-01-01", tz="UTC") + pd.Timedelta(hours=start + j)
                rows["runs"].append(
                    {"run_id": f"{name}-{cluster}-{attempt}", "task_id": name, "cluster_id": cluster,
                     "attempt": attempt + 1, "duration_s": seconds * np.exp(rng.normal(0, 0.02)), "started_at": at,
                     "status": "succeeded" if attempt == 0 or rng.random() < 0.95 - 0.1 * (i != kind[j]) else "failed"}
                )  # fmt: skip
    machines = [
        {"cluster_id": c, "accelerator": "gpu", "accelerator_count": 1, "memory_bytes": 16 * 10**9, "peak_flops": 1e14}
        for c in CLUSTERS
    ]
    graphs = [chain(f"g{k}", 2 + k) for k in range(3)]
    rows |= {name: [row for graph in graphs for row in graph[name]] for name in ("nodes", "edges")}
    return {name: as_table(name, own) for name, own in (*rows.items(), ("clusters", machines))}


def chain(graph: str, operators: int) -> dict[str, list[dict[str, Any]]]:
    """Rows of `nodes` and `edges` of a graph whose operators follow each other."""
    same = {"op": "conv", "flops": 1e6, "bytes_read": 8.0, "bytes_written": 8.0, "output_numel": 2, "param_count": 9}
    return {
        "nodes": [{"graph_id": graph, "node_id": k, **same} for k in range(operators)],
        "edges": [{"graph_id": graph, "src": k, "dst": k + 1} for k in range(operators - 1)],
    }


def as_table(name: str, rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Rows in the schema's columns and types."""
    columns = [column.name for column in SCHEMA[name].columns]
    return coerce(SCHEMA[name], pd.DataFrame(rows, columns=columns)).frame


def small_settings(**release: Any) -> Any:
    """The shipped settings with short training, without graphs."""
    from mfcp.settings import Settings

    content = yaml.safe_load(PARAMS.read_text())
    content["pool"] |= {"replicas": 1, "failures": "observed"}
    content["featurize"] |= {"encoder": {"kind": "none"}, "operator_times": {"members": 2, "epochs": 3}}
    content["matching"] |= {"tasks": 5, "validation_rounds": 20}
    content["pretrain"]["training"] |= {"epochs": 40}
    content["release"] = {"method": "tsm_log_bayes"} | release
    return Settings(content)


def small_release(folder: Path, tables: Tables, **release: Any) -> Any:
    """A release learned from a log, in a folder."""
    from mfcp.release.fitting import fit_release

    return fit_release(tables, small_settings(**release), folder, data={"log": "small"})


def misled(tables: Tables, seed: int = 0) -> Tables:
    """The log with its clusters' names swapped: what is learned from it favours the wrong ones."""
    swap = dict(zip(CLUSTERS, (*CLUSTERS[1:], CLUSTERS[0]), strict=True))
    return {**tables, "runs": tables["runs"].assign(cluster_id=tables["runs"]["cluster_id"].map(swap))}
