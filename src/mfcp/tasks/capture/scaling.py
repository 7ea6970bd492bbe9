"""One capture for all batch sizes: each amount is `fixed + batch · (amount of one sample - fixed)`.

Two passes, at batch 2 and 3, must run the same operators; their difference is what a sample adds. Batch 1 is
extrapolated rather than run, as frameworks treat sides of length 1 in a way of their own. What is not affine, a
comparison of all samples with all others, is told by an output of which two sides grow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from mfcp.errors import DataError
from mfcp.tasks.capture.model_graph import Inputs, capture

AMOUNTS = ("flops", "bytes_read", "bytes_written", "output_numel")
"""Columns of nodes that grow with the batch; `<column>_fixed` is the part that does not."""
_FIRST, _SECOND = 2, 3
Pass = Callable[[int | None], tuple[pd.DataFrame, pd.DataFrame]]


@dataclass(frozen=True)
class Captured:
    """A graph per sample.

    Attributes:
        nodes: amounts of one sample; columns `<amount>_fixed` say how much of it does not grow with the batch, and
            `shape` has sides such as 196b. Where the capture holds for one batch only, amounts are divided by it,
            the fixed parts are empty, and shapes are that batch's.
        edges: as `capture` gives them.
        batch: samples of the example inputs.
        only: why this holds for `batch` alone, empty where it holds for every batch.
    """

    nodes: pd.DataFrame
    edges: pd.DataFrame
    batch: int
    only: str = ""

    @property
    def graph_id(self) -> str:
        """Name of the graph."""
        return str(self.nodes["graph_id"].iloc[0])

    def renamed(self, graph_id: str) -> Captured:
        """The same graph by another name."""
        return replace(self, nodes=self.nodes.assign(graph_id=graph_id), edges=self.edges.assign(graph_id=graph_id))


def capture_scaled(
    module: torch.nn.Module | torch.export.ExportedProgram,
    example_inputs: Inputs,
    graph_id: str,
    *,
    optimizer: str | None = None,
    loss: Callable[[Any], torch.Tensor] | None = None,
    values: bool = False,
) -> Captured:
    """`capture` for every batch size, where the module allows it: the first side of each input tensor is the batch.

    Args:
        module, example_inputs, graph_id, optimizer, loss: as of `capture`.
        values: as of `capture`; what runs is that of one draw then, and holds for the batch given alone.

    Raises:
        DataError: the pass fails with the example inputs, too.
    """
    sides = {
        tensor.shape[0] for tensor in tree_leaves(example_inputs) if isinstance(tensor, torch.Tensor) and tensor.ndim
    }
    options: dict[str, Any] = {"optimizer": optimizer, "loss": loss}
    if values:
        nodes, edges = capture(module, example_inputs, graph_id, **options, values=True)
        why = "its operators depend on values, here on one draw of inputs"
        return _single(nodes, edges, sides.pop() if len(sides) == 1 else 1, why)
    if len(sides) != 1:
        nodes, edges = capture(module, example_inputs, graph_id, **options)
        return _single(
            nodes, edges, 1, f"the inputs have no first side in common ({sorted(sides)}), all are one sample"
        )

    def run(batch: int | None) -> tuple[pd.DataFrame, pd.DataFrame]:
        resized = (
            example_inputs
            if batch is None
            else tree_map_only(torch.Tensor, lambda t: _resize(t, batch), example_inputs)
        )
        return capture(module, resized, graph_id, **options)

    return scale(run, sides.pop())


def scale(run: Pass, batch: int) -> Captured:
    """A graph per sample from a function that gives its tables at a batch size, None for the example's own.

    Raises:
        DataError: `run` fails for its own batch size as well.
    """
    try:
        (nodes, edges), (others, other_edges) = run(_FIRST), run(_SECOND)
    except DataError as error:
        return _single(*run(None), batch, f"another batch fails: {error}")
    if not _same(nodes, edges, others, other_edges):
        return _single(*run(None), batch, "batches of 2 and 3 samples run different operators")
    shapes = {pair: _symbolic(*pair) for pair in set(zip(nodes["shape"], others["shape"], strict=True))}
    slopes = {column: others[column] - nodes[column] for column in AMOUNTS}
    fixed = {f"{column}_fixed": nodes[column] - _FIRST * slope for column, slope in slopes.items()}
    if None in shapes.values() or any((amount < 0).any() for amount in (*slopes.values(), *fixed.values())):
        return _single(*run(None), batch, "an amount grows faster than the batch")
    columns: dict[str, Any] = {column: slope + fixed[f"{column}_fixed"] for column, slope in slopes.items()}
    # What grows decides, not what is read: a mask of ones depends on no input and yet has a row for every sample.
    columns["once"] = pd.concat(slopes, axis=1).eq(0).all(axis=1).astype("int64")
    columns["shape"] = [shapes[pair] for pair in zip(nodes["shape"], others["shape"], strict=True)]
    return Captured(nodes.assign(**columns, **fixed), edges, batch)


def one_sample(
    module: torch.nn.Module | torch.export.ExportedProgram, example_inputs: Inputs, scaled: Captured
) -> Captured:
    """The forward pass at batch 1, as published tables have it; `scaled` itself where that runs the same operators.

    At batch 1 some operators need no copy of their input: reordering sides leaves memory in order when one is 1.
    """
    if scaled.only:
        return scaled
    resized = tree_map_only(torch.Tensor, lambda tensor: _resize(tensor, 1), example_inputs)
    nodes, edges = capture(module, resized, scaled.graph_id)
    if _same(nodes, edges, scaled.nodes, scaled.edges):
        return scaled
    return _single(nodes, edges, 1, f"larger batches run {len(scaled.nodes)} operators instead of {len(nodes)}")


def at_batch(nodes: pd.DataFrame, batch: int) -> pd.DataFrame:
    """The nodes with amounts of a whole batch, without the columns of fixed parts.

    Raises:
        DataError: a graph that holds for one batch size only.
    """
    fixed = [f"{column}_fixed" for column in AMOUNTS]
    if not set(fixed) <= set(nodes) or nodes[fixed].isna().any(axis=None):
        raise DataError("these nodes hold for one batch size only: their fixed parts are not known")
    amounts = {
        column: nodes[rest] + batch * (nodes[column] - nodes[rest]) for column, rest in zip(AMOUNTS, fixed, strict=True)
    }
    return nodes.assign(**amounts).drop(columns=fixed)


def _resize(tensor: torch.Tensor, batch: int) -> torch.Tensor:
    if not tensor.ndim:
        return tensor
    return torch.empty(batch, *tensor.shape[1:], dtype=tensor.dtype, device="meta")


def _single(nodes: pd.DataFrame, edges: pd.DataFrame, batch: int, why: str) -> Captured:
    amounts: dict[str, Any] = {column: nodes[column] / batch for column in AMOUNTS[:-1]}
    amounts["output_numel"] = -(-nodes["output_numel"] // batch)
    unknown = {f"{column}_fixed": pd.Series(pd.NA, nodes.index, "Int64") for column in AMOUNTS}
    return Captured(nodes.assign(**amounts, **unknown), edges, batch, why)


def _same(nodes: pd.DataFrame, edges: pd.DataFrame, others: pd.DataFrame, other_edges: pd.DataFrame) -> bool:
    columns = ["op", "part", "dtype", "param_count"]
    return nodes[columns].equals(others[columns]) and edges.equals(other_edges)


def _symbolic(first: str, second: str) -> str | None:
    """A shape in terms of the batch b from those at batch 2 and 3; None where more than one side depends on it."""
    sides = []
    for two, three in zip(first.split("x"), second.split("x"), strict=True):
        if two == three:
            sides.append(two)
            continue
        slope = int(three) - int(two)
        rest = int(two) - _FIRST * slope
        sides.append(f"{slope if slope != 1 else ''}b{f'{rest:+d}' if rest else ''}")
    growing = sum("b" in side for side in sides)
    return "x".join(sides) if growing <= 1 else None
