"""ONNX files: read without their weights, looked through for what is unsafe or broken, and given shapes.

The only importer of `onnx`, which is an optional package.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mfcp.border.limits import limits
from mfcp.border.regular import opened, refusing
from mfcp.errors import DataError, SettingsError

if TYPE_CHECKING:
    from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto

_KEPT_ELEMENTS = 1024  # larger tensors are weights; smaller ones may hold shapes, which inference reads
_EMPTIED = "emptied"
_AGAIN = "export it again"
_CALLS = 50  # functions and graphs within each other
_LONGEST = 2**40  # side of a tensor
# What exporters compute shapes with. Nothing else is evaluated: an operator on text may match a regular expression, and
# take the age of the universe.
_OF_SHAPES = frozenset(
    {
        *("Shape", "Size", "Constant", "ConstantOfShape", "Identity", "Cast", "Gather", "Concat", "Slice", "Split"),
        *(
            "Squeeze",
            "Unsqueeze",
            "Reshape",
            "Transpose",
            "Expand",
            "Tile",
            "Range",
            "Where",
            "Equal",
            "Not",
            "And",
            "Or",
        ),
        *("Or", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Add", "Sub", "Mul", "Div", "Mod", "Neg", "Abs"),
        *(
            "Min",
            "Max",
            "Floor",
            "Ceil",
            "Sqrt",
            "Pow",
            "ReduceProd",
            "ReduceSum",
            "ReduceMax",
            "ReduceMin",
            "ScatterND",
        ),
    }
)
Value = tuple[tuple[int, ...], str, int]
"""Shape, data type, and bytes of one element."""


def load_model(path: Path) -> ModelProto:
    """The model of a file, functions inlined, weights emptied.

    Raises:
        DataError: a missing or damaged file, external data that are missing or outside of the file's folder, values out
            of order.
        SettingsError: the package `onnx` is not installed.
    """
    onnx, bounds = _package(), limits()
    with opened(path, bounds.file_mib, expected="an ONNX model") as file, refusing(path, "a whole ONNX file", _AGAIN):
        model: ModelProto = onnx.load_model_from_string(file.read())
    if not model.graph.node:
        raise DataError(f"{path}: an ONNX file without operators; expected a model")
    _check_sizes(path, model, bounds.nodes)
    for tensor in _tensors(model):
        _check_external(path, tensor)
    if model.functions:
        with refusing(path, "a model whose functions can be put in place", _AGAIN):
            model = onnx.inliner.inline_local_functions(model)
    _check_order(path, model)
    for tensor in model.graph.initializer:
        if prod(tensor.dims) > _KEPT_ELEMENTS or tensor.external_data:
            name, dtype, sides = tensor.name, tensor.data_type, list(tensor.dims)
            tensor.Clear()
            tensor.name, tensor.data_type, tensor.doc_string = name, dtype, _EMPTIED
            tensor.dims.extend(sides)
    return model


def _package() -> Any:
    try:
        import onnx
        import onnx.defs
        import onnx.inliner
        import onnx.shape_inference
    except ImportError as error:
        raise SettingsError(
            f"ONNX files need a package that is not installed ({error}); pip install 'mfcp[onnx]'"
        ) from None
    return onnx


def _check_sizes(path: Path, model: ModelProto, most: int) -> None:
    """Before functions are put in place: ten that call each other ten times each are ten thousand million operators."""
    functions = {(own.domain, own.name): own for own in model.functions}
    counts: dict[tuple[str, str], int] = {}

    def counted(nodes: Any, above: tuple[tuple[str, str], ...]) -> int:
        total = 0
        for node in nodes:
            key = (node.domain, node.op_type)
            if key in above or len(above) > _CALLS:
                raise DataError(f"{path}: function '{node.op_type}' calls itself, or calls lie too deep; {_AGAIN}")
            if key in functions and key not in counts:
                counts[key] = counted(functions[key].node, (*above, key))
            total += counts.get(key, 1)
            total += sum(counted(inner.node, (*above, ("", ""))) for part in node.attribute for inner in _graphs(part))
        return total

    if (count := counted(model.graph.node, ())) > most:
        raise DataError(f"{path}: {count} operators; expected at most {most}, see `limits` of params.yaml")
    versions = [entry.version for entry in model.opset_import]
    if not versions or min(versions) < 1:
        raise DataError(f"{path}: operators of no version; expected opset_import from 1; {_AGAIN}")
    sides = [(tensor.name, side) for tensor in model.graph.initializer for side in tensor.dims]
    for value in [*model.graph.input, *model.graph.value_info, *model.graph.output]:
        sides += [(value.name, side.dim_value) for side in value.type.tensor_type.shape.dim]
    for name, side in sides:
        if not 0 <= side < _LONGEST:
            raise DataError(f"{path}: a side of '{name}' is {side}; expected a length from 0; {_AGAIN}")


def _graphs(part: AttributeProto) -> list[GraphProto]:
    return [*([part.g] if part.HasField("g") else []), *part.graphs]


def _tensors(model: ModelProto) -> Iterator[TensorProto]:
    yield from model.graph.initializer
    for node in [*model.graph.node, *(node for function in model.functions for node in function.node)]:
        for attribute in node.attribute:
            yield from [attribute.t, *attribute.tensors]


def _check_external(path: Path, tensor: TensorProto) -> None:
    location = next((entry.value for entry in tensor.external_data if entry.key == "location"), None)
    if location is None:
        return
    folder = path.parent.resolve()
    target = (folder / location).resolve()
    if not target.is_relative_to(folder):
        raise DataError(
            f"{path}: tensor '{tensor.name}' has its data in '{location}', outside of the model's folder, which is "
            "refused; put the data beside the model"
        )
    if not target.is_file():
        raise DataError(
            f"{path}: tensor '{tensor.name}' has its data in '{location}', which is missing; copy it into {path.parent}"
        )


def _check_order(path: Path, model: ModelProto) -> None:
    known = {"", *(value.name for value in model.graph.input), *(tensor.name for tensor in model.graph.initializer)}
    known |= {tensor.values.name for tensor in model.graph.sparse_initializer}
    for node in model.graph.node:
        early = [name for name in node.input if name not in known]
        if early:
            raise DataError(
                f"{path}: {label(node)} reads '{early[0]}', which nothing before it writes: a cycle or a gap"
            )
        known.update(node.output)


def infer_shapes(model: ModelProto, bound: Mapping[str, tuple[int | str, ...]], path: Path) -> dict[str, Value]:
    """Every value whose shape and type can be told, with inputs of these shapes.

    Node by node, as exporters compute shapes at run time, by operators on small constants: those are evaluated.

    Raises:
        DataError: a node that its inputs do not fit.
    """
    onnx = _package()
    types, constants = _start(model, bound)
    opsets = list(model.opset_import)
    versions = {entry.domain: entry.version for entry in opsets}
    for node in model.graph.node:
        inputs = [name for name in node.input if name]
        told: dict[str, TypeProto] = {}
        if onnx.defs.has(node.op_type, domain=node.domain) and all(name in types for name in inputs):
            with refusing(f"{path}: {label(node)}", "an operator of its version", _AGAIN):
                schema = onnx.defs.get_schema(node.op_type, versions.get(node.domain, 1), node.domain)
            given = {name: types[name] for name in inputs}
            known = {name: constants[name] for name in inputs if name in constants}
            with refusing(f"{path}: {label(node)}", "fit for its inputs", "check their shapes"):
                told = onnx.shape_inference.infer_node_outputs(
                    schema, node, given, known, None, opsets, model.ir_version
                )
        types.update({name: kind for name, kind in told.items() if name not in types or _value(kind)})
        constants.update(_evaluated(node, inputs, types, constants, opsets))
    return {name: value for name, kind in types.items() if (value := _value(kind))}


def _start(
    model: ModelProto, bound: Mapping[str, tuple[int | str, ...]]
) -> tuple[dict[str, TypeProto], dict[str, TensorProto]]:
    """Types and constants that are known before any node: inputs, weights, and what the file says of other values."""
    from onnx.helper import make_tensor_type_proto

    symbols: dict[str, int] = {}
    types: dict[str, TypeProto] = {}
    for value in model.graph.input:
        sides = value.type.tensor_type.shape.dim
        symbols.update(
            {s.dim_param: int(n) for s, n in zip(sides, bound.get(value.name, ()), strict=False) if s.dim_param}
        )
    for value in [*model.graph.value_info, *model.graph.output, *model.graph.input]:
        tensor = value.type.tensor_type
        shape = [s.dim_value if s.HasField("dim_value") else symbols.get(s.dim_param) for s in tensor.shape.dim]
        shape = list(map(int, bound[value.name])) if value.name in bound else shape
        if value.name in bound or tensor.HasField("shape"):
            types[value.name] = make_tensor_type_proto(tensor.elem_type, shape)
    small = {tensor.name: tensor for tensor in model.graph.initializer if prod(tensor.dims) <= _KEPT_ELEMENTS}
    types |= {t.name: make_tensor_type_proto(t.data_type, list(t.dims)) for t in model.graph.initializer}
    return types, {name: tensor for name, tensor in small.items() if tensor.doc_string != _EMPTIED}


def _evaluated(
    node: NodeProto,
    inputs: list[str],
    types: Mapping[str, TypeProto],
    constants: Mapping[str, TensorProto],
    opsets: list[Any],
) -> dict[str, TensorProto]:
    """The outputs of a node that makes small constants, else nothing."""
    of_shape = node.op_type in ("Shape", "Size")
    if node.op_type not in _OF_SHAPES or not (of_shape or all(name in constants for name in inputs)):
        return {}
    import numpy as np
    from onnx import helper, numpy_helper
    from onnx.reference import ReferenceEvaluator

    sizes = [_value(types[name]) if name in types else None for name in (*node.output, *inputs[: int(of_shape)])]
    if None in sizes or any(size and prod(size[0]) > _KEPT_ELEMENTS for size in sizes[: len(node.output)]):
        return {}
    try:
        if of_shape and sizes[-1]:
            feeds = {inputs[0]: np.broadcast_to(np.zeros((), bool), sizes[-1][0])}
        else:
            feeds = {name: numpy_helper.to_array(constants[name]) for name in inputs}
        made = [[helper.make_empty_tensor_value_info(name) for name in names] for names in (feeds, node.output)]
        graph = helper.make_graph([node], "constants", made[0], made[1])
        results = ReferenceEvaluator(helper.make_model(graph, opset_imports=opsets)).run(None, feeds)
    except Exception:  # whatever it cannot do stays unknown, and is named where its shape is needed
        return {}
    return {name: numpy_helper.from_array(np.asarray(r), name) for name, r in zip(node.output, results, strict=True)}


def _value(kind: TypeProto) -> Value | None:
    tensor = kind.tensor_type
    sides = tensor.shape.dim
    if not tensor.elem_type or not tensor.HasField("shape") or not all(side.HasField("dim_value") for side in sides):
        return None
    return (tuple(side.dim_value for side in sides), *_dtype(tensor.elem_type))


@cache
def _dtype(kind: int) -> tuple[str, int]:
    from onnx.helper import tensor_dtype_to_np_dtype

    dtype = tensor_dtype_to_np_dtype(kind)
    return dtype.name, dtype.itemsize


def label(node: NodeProto) -> str:
    """A node as messages name it."""
    return f"node '{node.name}' ({node.op_type})" if node.name else f"a node {node.op_type}"
