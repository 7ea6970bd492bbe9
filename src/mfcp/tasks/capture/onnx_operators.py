"""ONNX operators in terms of the ATen operators that do the same, and their FLOPs."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

Shapes = Sequence[tuple[int, ...] | None]
"""Of the inputs, None for one that is left out."""

VIEWS = frozenset(
    {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Transpose", "Expand", "Slice", "Split", "Dropout"}
)
"""What ATen does without touching memory, dropout in evaluation included."""

CONTROL = frozenset({"If", "Loop", "Scan"})

# fmt: off
_ATEN = {
    "Conv": "convolution", "ConvTranspose": "convolution", "Add": "add", "Sum": "add", "Sub": "sub", "Mul": "mul",
    "Div": "div", "Pow": "pow", "Sqrt": "sqrt", "Exp": "exp", "Log": "log", "Neg": "neg", "Abs": "abs", "Sin": "sin",
    "Cos": "cos", "Reciprocal": "reciprocal", "Floor": "floor", "Max": "maximum", "Min": "minimum", "Where": "where",
    "Relu": "relu", "Gelu": "gelu", "Sigmoid": "sigmoid", "Tanh": "tanh", "HardSwish": "hardswish",
    "HardSigmoid": "hardsigmoid", "LeakyRelu": "leaky_relu", "PRelu": "prelu", "Elu": "elu", "Softplus": "softplus",
    "Mish": "mish", "Swish": "silu", "Clip": "clamp", "Softmax": "_softmax", "LogSoftmax": "_log_softmax",
    "BatchNormalization": "native_batch_norm", "LayerNormalization": "native_layer_norm",
    "GroupNormalization": "native_group_norm", "InstanceNormalization": "native_group_norm",
    "ReduceMean": "mean", "ReduceSum": "sum", "ReduceProd": "prod", "ReduceMax": "amax", "ReduceMin": "amin",
    "ReduceL2": "linalg_vector_norm", "ArgMax": "argmax", "CumSum": "cumsum", "GlobalAveragePool": "mean",
    "GlobalMaxPool": "amax", "AveragePool": "avg_pool2d", "MaxPool": "max_pool2d_with_indices", "Concat": "cat",
    "Cast": "_to_copy", "Pad": "constant_pad_nd", "Tile": "repeat", "GatherElements": "gather", "GatherND": "index",
    "ScatterND": "index_put", "Trilu": "triu", "Resize": "upsample_bilinear2d", "DepthToSpace": "pixel_shuffle",
    "Equal": "eq", "Less": "lt", "LessOrEqual": "le", "Greater": "gt", "GreaterOrEqual": "ge", "Not": "logical_not",
    "And": "logical_and", "ConstantOfShape": "full", "Range": "arange", "Or": "logical_or", "Xor": "logical_xor",
    "Erf": "erf", "Ceil": "ceil", "Round": "round", "Sign": "sign", "Mod": "remainder", "IsNaN": "isnan",
    "IsInf": "isinf", "Tan": "tan", "Asin": "asin", "Acos": "acos", "Atan": "atan", "Sinh": "sinh", "Cosh": "cosh",
    "Selu": "elu", "Celu": "elu", "ThresholdedRelu": "threshold", "ReduceL1": "linalg_vector_norm",
    "ReduceSumSquare": "linalg_vector_norm", "ReduceLogSumExp": "logsumexp", "ArgMin": "argmin", "TopK": "topk",
    "CastLike": "_to_copy", "QuantizeLinear": "_to_copy", "DequantizeLinear": "_to_copy",
    "DynamicQuantizeLinear": "_to_copy", "ScatterElements": "scatter", "OneHot": "scatter", "NonZero": "nonzero",
    "Compress": "nonzero", "GridSample": "grid_sampler_2d", "SpaceToDepth": "pixel_unshuffle", "EyeLike": "eye",
    "RandomNormalLike": "randn", "RandomUniformLike": "rand", "Bernoulli": "bernoulli", "ConvInteger": "convolution",
    "QLinearConv": "convolution", "MatMulInteger": "mm", "QLinearMatMul": "mm", "LSTM": "mm", "GRU": "mm", "RNN": "mm",
    "Einsum": "bmm", "Attention": "scaled_dot_product_attention", "MultiHeadAttention": "scaled_dot_product_attention",
}
# fmt: on


def aten_name(operator: str, shapes: Shapes, *, is_table: bool) -> str:
    """Name of the ATen operator; one that has none here keeps its own, and falls into the class `other`.

    Args:
        operator: its name in ONNX.
        shapes: of its inputs.
        is_table: the first input is a weight, from which rows are gathered.
    """
    match operator:
        case "Gemm":
            return "addmm" if len(shapes) > 2 else "mm"
        case "MatMul":
            return "mm" if shapes[1] is not None and len(shapes[1]) <= 2 else "bmm"
        case "Gather":
            return "embedding" if is_table else "index_select"
    return _ATEN.get(operator, operator)


def count_flops(node: Any, shapes: Shapes, out: tuple[int, ...]) -> int:
    """2 x multiply-accumulates of convolutions and matrix products, else 0.

    Args:
        node: an operator.
        shapes: of its inputs.
        out: shape of its first output.
    """
    first, second, third = (*shapes, None, None, None)[:3]
    if node.op_type in ("QLinearConv", "QLinearMatMul"):  # each with its scale and its zero
        second = shapes[3] if len(shapes) > 3 else None
    if first is None or second is None:
        return 0
    match node.op_type:
        case "Conv" | "ConvInteger" | "QLinearConv":
            return 2 * prod(out) * prod(second[1:])
        case "ConvTranspose":
            return 2 * prod(first) * prod(second[1:])
        case "LSTM" | "GRU" | "RNN" if third is not None and len(first) > 1:
            # For each step of each sequence: the input times one matrix, the state times another.
            return 2 * first[0] * first[1] * (prod(second) + prod(third))
        case "Attention" if node.domain and len(first) == 3:  # ONNX Runtime's makes queries, keys and values itself
            return 2 * prod(first) * second[-1] + 4 * first[1] * prod(out)
        case "Attention" | "MultiHeadAttention" if len(second) > 1:  # by keys, then by values
            return 2 * second[-2] * (prod(first) + prod(out))
        case "Einsum":
            return _einsum_flops(node, first, second)
        case "MatMul" | "MatMulInteger" | "QLinearMatMul":
            return 2 * prod(out) * first[-1]
        case "Gemm":
            is_transposed = any(attribute.name == "transA" and attribute.i for attribute in node.attribute)
            return 2 * prod(out) * first[0 if is_transposed else 1]
    return 0


def _einsum_flops(node: Any, first: tuple[int, ...], second: tuple[int, ...]) -> int:
    """A product and a sum for every value of all letters; 0 where some stand for several sides."""
    equation = next((a.s.decode() for a in node.attribute if a.name == "equation"), "").replace(" ", "")
    terms = equation.split("->")[0].split(",")
    if "." in equation or [len(term) for term in terms] != [len(first), len(second)]:
        return 0
    sides = dict(zip("".join(terms), (*first, *second), strict=True))
    return 2 * prod(sides.values())
