"""ONNX files as operator graphs in the same terms as captured modules.

Shapes come from ONNX's own inference; weights are not read. Operators get the names of the ATen operators that do
the same, views are looked through, and what depends on no input of the graph is not computed at run time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import pandas as pd

from mfcp.border.regular import refusing
from mfcp.errors import DataError
from mfcp.tasks.capture.model_graph import as_tables
from mfcp.tasks.capture.onnx_file import Value, infer_shapes, label, load_model
from mfcp.tasks.capture.onnx_operators import CONTROL, VIEWS, aten_name, count_flops
from mfcp.tasks.capture.scaling import Captured, scale

Shape = tuple[int, ...]


def capture_onnx(path: Path, graph_id: str, *, shapes: Mapping[str, Shape] | Sequence[Shape] = ()) -> Captured:
    """The operators of an ONNX file's forward pass, for every batch size where the first side of its inputs is free.

    Args:
        path: the file. Its external data need to be there, but are not read.
        graph_id: name of the graph.
        shapes: of inputs, by name or in their order; needed where a side other than the first is free.

    Raises:
        DataError: a damaged file, missing external data or data outside of the file's folder, a shape that cannot be
            told, control flow; names the tensor, value or node.
    """
    with refusing(path, "a model whose operators can be told", "export it again"):
        return _captured(path, graph_id, shapes)


def _captured(path: Path, graph_id: str, shapes: Mapping[str, Shape] | Sequence[Shape]) -> Captured:
    model = load_model(path)
    names = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in names]
    known = [value.name for value in inputs]
    given = dict(shapes) if isinstance(shapes, Mapping) else dict(zip(known, shapes, strict=False))
    unknown = sorted(set(given) - set(known))
    if unknown or len(shapes) > len(known):
        wrong = f"no input '{unknown[0]}'" if unknown else f"{len(shapes)} inputs given"
        raise DataError(f"{path}: {wrong}; it has {', '.join(known)}")
    declared = {value.name: _declared(value, given.get(value.name), path) for value in inputs}
    free = [name for name, sides in declared.items() if sides and isinstance(sides[0], str)]
    own = {given[name][0] for name in free if given.get(name)} or {1}
    if len(own) > 1:
        raise DataError(
            f"{path}: inputs {', '.join(free)} share the batch, but start with {sorted(own)}; make them equal"
        )

    def run(batch: int | None) -> tuple[pd.DataFrame, pd.DataFrame]:
        if batch is not None and not free:
            raise DataError("the file fixes the batch")
        first = next(iter(own)) if batch is None else batch
        bound = {name: (first, *sides[1:]) if name in free else sides for name, sides in declared.items()}
        return as_tables(graph_id, *_Reader(path, model.graph, infer_shapes(model, bound, path), set(bound)).rows())

    firsts = {sides[0] for sides in declared.values() if sides and not isinstance(sides[0], str)}
    batch = next(iter(own)) if free else (firsts.pop() if len(firsts) == 1 else 1)
    captured = scale(run, int(batch))
    if captured.nodes.empty:
        raise DataError(f"{path}: nothing in it depends on its inputs; expected a model")
    return captured


class _Reader:
    """Goes through the nodes of a graph with known shapes, in order."""

    def __init__(self, path: Path, graph: Any, values: dict[str, Value], data: set[str]) -> None:
        self.path, self.graph, self.values = path, graph, values
        self.is_data = set(data)  # values that depend on the graph's inputs
        # Weights behind each value; lists of whole numbers are shapes and axes.
        self.weights = {
            t.name: {t.name} if t.dims and self.values[t.name][1] != "int64" else set() for t in graph.initializer
        }
        self.writer: dict[str, int] = {}
        self.counted: set[str] = set()

    def rows(self) -> tuple[list[tuple[Any, ...]], list[tuple[int, int]]]:
        nodes: list[tuple[Any, ...]] = []
        edges: list[tuple[int, int]] = []
        for node in self.graph.node:
            inputs, outputs = [name for name in node.input if name], [name for name in node.output if name]
            if node.op_type in CONTROL:
                raise DataError(
                    f"{self.path}: {label(node)} decides at run time what is computed; export the model without it"
                )
            data = [name for name in inputs if name in self.is_data]
            if not data or node.op_type in ("Shape", "Size"):
                behind = set().union(*(self.weights.get(name, set()) for name in inputs))
                self.weights.update(dict.fromkeys(outputs, behind))
                continue
            self.is_data.update(outputs)
            if node.op_type in VIEWS:
                at = self.writer.get(data[0])
                self.writer.update({name: at for name in outputs if at is not None})
                continue
            nodes.append((len(nodes), *self._amounts(node, inputs, outputs, data)))
            edges.extend((i, len(nodes) - 1) for i in sorted({self.writer[n] for n in data if n in self.writer}))
            self.writer.update(dict.fromkeys(outputs, len(nodes) - 1))
        return nodes, edges

    def _amounts(self, node: Any, inputs: list[str], outputs: list[str], data: list[str]) -> tuple[Any, ...]:
        written = [self._value(name, node) for name in outputs]
        read = [self._value(name, node) for name in data]
        shapes = [self._value(name, node)[0] if name else None for name in node.input]
        fresh = set().union(*(self.weights.get(name, set()) for name in inputs)) - self.counted
        self.counted |= fresh
        shape, dtype, _ = written[0]
        return (
            aten_name(node.op_type, shapes, is_table=bool(node.input) and node.input[0] not in self.is_data),
            count_flops(node, shapes, shape),
            sum(prod(sides) * size for sides, _, size in read),
            sum(prod(sides) * size for sides, _, size in written),
            prod(shape),
            sum(prod(self.values[name][0]) for name in fresh),
            "forward",
            dtype,
            "x".join(map(str, shape)) or "scalar",
            0,  # what depends on no input is not computed
        )

    def _value(self, name: str, node: Any) -> Value:
        if name not in self.values:
            raise DataError(
                f"{self.path}: the shape of '{name}' at {label(node)} cannot be told; give the shapes of all inputs, "
                "or write the shape of this value into the file"
            )
        return self.values[name]


def _declared(value: Any, given: tuple[int, ...] | None, path: Path) -> tuple[int | str, ...]:
    """The sides of an input: as given, where the file leaves them free; of the first, its name if it is free."""
    sides: list[int | str] = [
        side.dim_value if side.HasField("dim_value") else side.dim_param or "?"
        for side in value.type.tensor_type.shape.dim
    ]
    shown = "x".join(map(str, sides)) or "scalar"
    if given is not None:
        fits = len(given) == len(sides) and all(isinstance(s, str) or s == g for s, g in zip(sides, given, strict=True))
        if not fits:
            raise DataError(f"{path}: input '{value.name}' is {shown}, which {'x'.join(map(str, given))} does not fit")
        return (*sides[:1], *given[1:])
    if any(isinstance(side, str) for side in sides[1:]):
        raise DataError(f"{path}: input '{value.name}' is {shown}; give its shape: --input {value.name}=…")
    return tuple(sides)
