"""Measured latencies of transformer models on devices, as NeuSight's authors published them; for families.py."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from mfcp.arrays import Bools, Floats, Ints
from mfcp.simulator.traces.files import read_table
from mfcp.tasks.timing.device_levels import WholeRuns
from mfcp.tasks.timing.kernels import Devices, Kernels

TRAINING_DEVICES = "seen_by_neusight"
PUBLISHED = {"neusight": "NeuSight", "habitat": "Habitat", "roofline": "roofline", "li_et_al": "Li et al."}
# The graphs of dense models hold one of their layers, between these nodes.
LAYER = {
    "bert": ("bert_encoder_layer_0_attention_self_query", "bert_encoder_layer_0_output_layer_norm"),
    "gpt": ("transformer_h_0_ln_1", "add_15"),
    "opt": ("model_decoder_layers_0_self_attn_layer_norm", "view_11"),
}
KIND = {"softmax": "softmax", "ln": "normalization"} | dict.fromkeys(
    ("addu", "mulu", "powu", "divu", "tanh", "relu", "gelu"), "unary"
) | dict.fromkeys(("add", "mul", "pow", "div"), "binary")  # fmt: skip


@dataclass(frozen=True)
class Log:
    """Cases on one device without options (fused, several devices) that have a graph, and single operators.

    Attributes:
        devices: figures.
        seen: (D,) which devices NeuSight learned from, as we do; nothing measured on the others is learned.
        cases: one row each, aligned with `graphs` and `runs`.
        kernels, kernel_device, kernel_seconds: operators measured one by one.
    """

    devices: Devices
    seen: Bools
    cases: pd.DataFrame
    graphs: list[Kernels]
    kernels: Kernels
    kernel_device: Ints
    kernel_seconds: Floats

    @cached_property
    def runs(self) -> WholeRuns:
        """What the cases ran, and where."""
        model, phase, run = (self.cases[name].to_numpy(str) for name in ("model", "phase", "graph_id"))
        return WholeRuns(self.devices.at(self.cases["device"].tolist()), model, phase, run)

    @property
    def seconds(self) -> Floats:
        """(n,) measured, nan where a case is held back."""
        return self.cases["latency_s"].to_numpy(float)

    def published(self, system: str) -> Floats:
        """(n,) seconds that a system's authors, or NeuSight's, predicted; nan where they did not."""
        return self.cases[f"{system}_latency_s"].to_numpy(float)


FUSED = "fusion"
COLUMNS = {
    "devices": (
        "device", "vendor", "peak_flops_fp32", "peak_flops_fp32_vector", "memory_bandwidth", "num_sm", "l2_cache_bytes",
        TRAINING_DEVICES,
    ),
    "cases": (
        "device", "model", "phase", "sequence_length", "batch_size", "option", "num_devices", "graph_id", "latency_s",
        *(f"{system}_latency_s" for system in PUBLISHED),
    ),
    "graphs": ("graph_id", "position", "node", "operator", "forward", "backward", "accumulate"),
    "models": ("model", "layers"),
    "operators": ("device", "operator", *"bmnkh", "latency_s"),
}  # fmt: skip


def read(folder: Path, option: str = "") -> Log:
    """The folder's tables: of the cases those without an option, or with this one."""
    figures, cases, graphs, models, operators = (
        read_table(folder / f"{name}.parquet", columns) for name, columns in COLUMNS.items()
    )
    devices = Devices(
        tuple(figures["device"].astype(str)), tuple(figures["vendor"].astype(str)),
        *(figures[name].to_numpy(float) for name in (
            "peak_flops_fp32", "peak_flops_fp32_vector", "memory_bandwidth", "num_sm", "l2_cache_bytes",
        )),
    )  # fmt: skip
    layers = dict(zip(models["model"].astype(str), models["layers"], strict=True))
    of_graph = {str(name): rows for name, rows in graphs.groupby("graph_id", observed=True)}
    asked = cases["option"].astype(object).fillna("") == option
    asked &= (cases["num_devices"] == 1) & cases["graph_id"].astype(str).isin(of_graph)
    cases = cases[asked].reset_index(drop=True)
    held = {name: _kernels(of_graph[name], int(layers[name.split("-")[0]])) for name in set(cases["graph_id"])}
    operators = operators[operators["operator"].astype(str).isin([*KIND, "linear", "bmm"])]
    kind = operators["operator"].astype(str)
    product = kind.isin(["linear", "bmm"]).to_numpy()
    b, m, n, k, h = (operators[c].astype(float).fillna(1.0).to_numpy() for c in "bmnkh")
    size = np.column_stack([b, np.where(product, m, h), np.where(product, n, 1), np.where(product, k, 1)])
    name = np.array([{"linear": "linear", "bmm": "batched_product"}.get(x) or KIND[x] for x in kind])
    return Log(
        devices,
        figures[TRAINING_DEVICES].to_numpy(bool),
        cases,
        [held[name] for name in cases["graph_id"]],
        Kernels(name, size, np.ones(len(name))),
        devices.at(operators["device"].astype(str).tolist()),
        operators["latency_s"].to_numpy(float),
    )


def _kernels(rows: pd.DataFrame, layers: int) -> Kernels:
    """All kernels of a graph: forward, backward, and what is added to gradients.

    Operators that are fused go over memory once: of those that are no products the one that moves most is left.
    """
    rows = rows.sort_values("position")
    graph, nodes, repeat = str(rows["graph_id"].iloc[0]), rows["node"].tolist(), np.ones(len(rows))
    for family, (first, last) in LAYER.items():
        if family in graph.split("-")[0] and not graph.endswith(FUSED):  # a fused graph has all layers
            repeat[nodes.index(first) : nodes.index(last) + 1] = layers
    found = []
    for row, times in zip(rows.itertuples(), repeat.tolist(), strict=True):
        for part in (row.forward, row.backward, row.accumulate):
            operators = json.loads(str(part))
            if row.operator == "fused":
                passes = [one for one in operators if one[0].startswith("VEC")]
                largest = max(passes, key=_moves, default=None)
                operators = [one for one in operators if one not in passes or one is largest]
            for operator, sizes in operators:
                if operator == "Linear":
                    found.append(("linear", (1, *sizes), times))
                elif operator == "BMM":
                    found.append(("batched_product", tuple(sizes), times))
                elif operator == "MEM":
                    found.append(("copy", (sum(int(np.prod(shape)) for shape in sizes), 1, 1, 1), times))
                else:
                    found.append((KIND[operator.removeprefix("VEC")], (*sizes, 1, 1), times))
    table = pd.DataFrame(found, columns=["kind", "size", "count"]).groupby(["kind", "size"], as_index=False).sum()
    size = np.array(table["size"].tolist(), float)
    return Kernels(table["kind"].to_numpy(str), size, table["count"].to_numpy(float))


def _moves(operator: tuple[str, list[int]]) -> tuple[int, float]:
    """What a pass over numbers moves, and how much it does with each."""
    kind, sizes = KIND[operator[0].removeprefix("VEC")], operator[1]
    return int(np.prod(sizes)) * (3 if kind == "binary" else 2), {"normalization": 2, "softmax": 1}.get(kind, 0)
