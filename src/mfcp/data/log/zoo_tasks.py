"""New tasks that name a model of the zoo and nothing else of it: figures and graphs are counted, not asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from mfcp.emulator import zoo
from mfcp.errors import DataError

if TYPE_CHECKING:
    from mfcp.data.log.tables import Tables

PREFIX = "zoo:"


def with_zoo_models(tables: Tables) -> Tables:
    """The tables with figures and graph of every task whose model is `zoo:ID` and that has no graph of its own.

    Cells that a row states stay, and so does a graph of that name. `mfcp capture --list` names the models.

    Raises:
        DataError: a model that is not in the zoo.
    """
    tasks = tables["tasks"]
    model = tasks["model"].astype(object).where(tasks["model"].notna(), "").astype(str)
    named = model.str.startswith(PREFIX).to_numpy(bool) & tasks["graph_id"].isna().to_numpy(bool)
    if not named.any():
        return tables
    known = {variant.graph_id: variant for variant in zoo.variants()}
    asked = model[named].str.removeprefix(PREFIX)
    missing = sorted(set(asked) - set(known))
    if missing:
        task = tasks["task_id"].iloc[int((model == PREFIX + missing[0]).to_numpy().argmax())]
        raise DataError(f"task '{task}': no model '{missing[0]}' in the zoo; `mfcp capture --list` names them")
    chosen = {name: known[name] for name in dict.fromkeys(asked)}
    nodes, edges = zoo.capture_all(chosen.values())
    totals = nodes.assign(activations=zoo.activations(nodes)).groupby("graph_id")[_SUMMED].sum().loc[asked.to_list()]
    figures: dict[str, Any] = {
        "model": [chosen[name].model for name in asked],
        "domain": [chosen[name].family.domain for name in asked],
        "family": [chosen[name].family.name for name in asked],
        "input_size": [float(chosen[name].shape) for name in asked],
        "graph_id": asked.to_list(),
        **{column: totals[column].astype(float).to_list() for column in _SUMMED},
    }
    filled = tasks.copy()
    rows = np.flatnonzero(named)
    for column, values in figures.items():
        cells = filled[column].astype(object).where(filled[column].notna(), None)
        old = cells.iloc[rows].to_list()
        keep = column not in ("model", "graph_id")
        cells.iloc[rows] = [
            before if keep and before is not None else value for before, value in zip(old, values, strict=True)
        ]
        filled[column] = cells.astype(tasks[column].dtype)
    there: list[str] = tables["nodes"]["graph_id"].unique().tolist() if "nodes" in tables else []
    graphs = {name: own[~own["graph_id"].isin(there)] for name, own in (("nodes", nodes), ("edges", edges))}
    beside = {
        name: pd.concat([tables[name], own], ignore_index=True) if name in tables else own
        for name, own in graphs.items()
    }
    return {**tables, "tasks": filled, **beside}


_SUMMED = ["param_count", "flops", "activations"]
