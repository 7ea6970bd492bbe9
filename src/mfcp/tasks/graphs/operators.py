"""Operators by class: convolutions, matrix products, and what surrounds them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from mfcp.arrays import Bools, Floats, Ints, Texts

if TYPE_CHECKING:
    import pandas as pd

CLASSES: dict[str, tuple[str, ...]] = {
    "convolution": ("convolution",),
    "thin_convolution": (),
    "matmul": ("addmm", "mm", "linear"),
    "batched_matmul": ("bmm", "baddbmm", "matmul", "_scaled_dot_product_attention", "scaled_dot_product_attention"),
    "batch_norm": ("native_batch_norm", "_native_batch_norm_legit_no_training", "batch_norm"),
    "layer_norm": ("native_layer_norm", "native_group_norm", "layer_norm", "group_norm", "linalg_vector_norm"),
    "softmax": ("_softmax", "_safe_softmax", "_log_softmax", "softmax"),
    "activation": (
        *("relu", "gelu", "silu", "sigmoid", "tanh", "hardswish", "hardsigmoid", "hardtanh", "leaky_relu", "mish"),
        *("elu", "prelu", "softplus", "glu", "clamp", "clamp_min", "clamp_max", "threshold"),
    ),
    "arithmetic": (
        *("add", "mul", "sub", "div", "rsub", "neg", "pow", "sqrt", "rsqrt", "exp", "log", "sin", "cos", "abs"),
        *("addcmul", "addcdiv", "maximum", "minimum", "where", "masked_fill", "reciprocal", "lerp"),
        *("bernoulli", "native_dropout", "floor"),
    ),
    "comparison": ("eq", "ne", "lt", "le", "gt", "ge", "bitwise_not", "bitwise_and", "logical_not", "logical_and"),
    "reduction": (
        *("mean", "sum", "var", "var_mean", "amax", "amin", "max", "min", "cumsum", "prod", "argmax", "any", "all"),
        *("avg_pool2d", "max_pool2d_with_indices", "_adaptive_avg_pool2d", "adaptive_max_pool2d"),
        *("nll_loss_forward", "nll_loss", "mse_loss", "binary_cross_entropy_with_logits"),
    ),
    "movement": (
        *(
            "clone",
            "copy",
            "_to_copy",
            "cat",
            "stack",
            "constant_pad_nd",
            "reflection_pad2d",
            "roll",
            "repeat",
            "index",
        ),
        *(
            "index_select",
            "index_put",
            "select",
            "slice",
            "gather",
            "embedding",
            "embedding_dense",
            "as_strided",
            "im2col",
            "col2im",
            "tril",
            "triu",
            "flip",
            "slice_scatter",
        ),
        *("upsample_nearest2d", "upsample_bilinear2d", "upsample_bicubic2d", "_upsample_bicubic2d_aa", "pixel_shuffle"),
    ),
    "creation": (
        "arange",
        "zeros",
        "ones",
        "full",
        "eye",
        "scalar_tensor",
        "zeros_like",
        "ones_like",
        "full_like",
        "new_zeros",
        "new_ones",
        "rand",
        "fill",
    ),
    "other": (),
}
"""Operators by class; what is in none of them, nor like one, is counted under `other`. The backward of an operator is
in its class."""

# fmt: off
_LIKE: dict[str, tuple[str, ...]] = {
    "embedding": ("_embedding_bag", "_embedding_bag_forward_only", "_embedding_bag_dense"),
    "index_put": (
        "scatter", "scatter_add", "scatter_reduce", "index_add", "index_copy", "index_fill", "index_reduce",
        "masked_scatter", "put", "select_scatter",
    ),
    "gather": ("take", "grid_sampler_2d", "grid_sampler_3d", "masked_select", "nonzero"),
    "constant_pad_nd": (
        "reflection_pad1d", "reflection_pad3d", "replication_pad1d", "replication_pad2d", "replication_pad3d",
    ),
    "upsample_nearest2d": ("upsample_nearest1d", "upsample_nearest3d", "_upsample_nearest_exact2d"),
    "upsample_bilinear2d": ("upsample_linear1d", "upsample_trilinear3d", "_upsample_bilinear2d_aa"),
    "pixel_shuffle": ("pixel_unshuffle", "channel_shuffle"),
    "max_pool2d_with_indices": ("max_pool3d_with_indices", "fractional_max_pool2d", "adaptive_max_pool3d"),
    "avg_pool2d": ("avg_pool1d", "avg_pool3d"),
    "_adaptive_avg_pool2d": ("adaptive_avg_pool1d", "_adaptive_avg_pool3d"),
    "cumsum": ("cumprod", "logcumsumexp", "cummax", "cummin"),
    "argmax": ("argmin", "topk", "sort", "kthvalue", "median"),
    "sum": ("nansum", "count_nonzero", "histc", "bincount"),
    "var": ("std",),
    "linalg_vector_norm": ("norm",),
    "_softmax": ("logsumexp",),
    "batch_norm": ("_native_batch_norm_legit", "cudnn_batch_norm", "_batch_norm_with_update"),
    "bmm": ("_grouped_mm", "_cdist_forward", "cdist", "_euclidean_dist"),
    "mm": ("mv", "addmv", "dot", "addr"),
    "scaled_dot_product_attention": (
        "_scaled_dot_product_flash_attention", "_scaled_dot_product_flash_attention_for_cpu",
        "_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention",
        "_scaled_dot_product_attention_math", "_flash_attention_forward", "_flash_attention",
        "_efficient_attention_forward", "_efficient_attention",
    ),
    "mse_loss": ("smooth_l1_loss", "huber_loss", "binary_cross_entropy", "soft_margin_loss"),
    "nll_loss_forward": ("nll_loss2d_forward", "nll_loss2d"),
    "softplus": ("log_sigmoid", "log_sigmoid_forward"),
    "exp": ("exp2", "expm1", "erf", "erfc", "erfinv"),
    "log": ("log2", "log10", "log1p"),
    "sin": ("tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "asinh", "acosh", "atanh"),
    "floor": ("ceil", "round", "trunc", "sign", "frac"),
    "div": ("remainder", "fmod", "floor_divide"),
    "ne": ("isnan", "isinf", "isfinite"),
    "logical_and": ("logical_or", "logical_xor", "bitwise_or", "bitwise_xor"),
    "rand": ("randn", "rand_like", "randn_like", "randint", "randperm", "uniform", "normal"),
}
# fmt: on
"""Known operator → others that are taken for it, because they do about the same to as many bytes. Networks over
operators embed the known ones only, so that these add nothing to what they have to learn."""

CLASS_NAMES = tuple(CLASSES)
_CLASS_OF = {operator: i for i, operators in enumerate(CLASSES.values()) for operator in operators}
_OTHER = CLASS_NAMES.index("other")
OPERATORS = ("other", *sorted(_CLASS_OF))
"""Known operators; the first place is for all others."""
_PLACE = {name: i for i, name in enumerate(OPERATORS)}
_BACKWARD = re.compile(r"_backward(_data)?$")
_KNOWN = {like: known for known, every in _LIKE.items() for like in every}
HEAVY = np.array([name in {"convolution", "thin_convolution", "matmul", "batched_matmul"} for name in CLASS_NAMES])
"""Which classes are convolutions or matrix products."""
# Products over at most 7 x 7 terms: depthwise and few-channel convolutions, which memory bounds.
_THIN_REDUCTION = 49


def factorize(column: pd.Series[str]) -> tuple[Ints, Texts]:
    """Codes of a text column and its sorted distinct values; hashing, as sorting a million strings takes seconds."""
    code, values = column.factorize()
    names, rank = np.unique(np.asarray(values, dtype=str), return_inverse=True)
    return rank[code], names


def classify(operator: pd.Series[str], flops: Floats, numel: Floats) -> tuple[Ints, dict[str, int]]:
    """Class of each operator, position in `CLASS_NAMES`, and how many fell into `other`, by operator.

    Args:
        operator: (n,) ATen names.
        flops, numel: (n,) FLOPs and output elements, which tell thin convolutions from dense ones.
    """
    code, known = factorize(operator)
    count = np.bincount(code, minlength=len(known))
    of_name = np.array([_CLASS_OF.get(_plain(name), _OTHER) for name in known], np.int64)
    kind = of_name[code]
    is_thin = (kind == 0) & (flops <= 2 * _THIN_REDUCTION * numel)
    unknown = {str(name): int(c) for name, c, k in zip(known, count, of_name, strict=True) if k == _OTHER}
    return np.where(is_thin, CLASS_NAMES.index("thin_convolution"), kind), unknown


def products(flops: Floats, numel: Floats, params: Floats) -> tuple[Floats, Floats]:
    """(n,) terms of each output of a convolution or product with weights, and its channels, 0 of anything else.

    2 · terms FLOPs make one output, and weights are channels · terms, or channels · (terms + 1) with a bias.
    """
    terms = flops / (2 * np.maximum(numel, 1))
    channels, with_bias = params / np.maximum(terms, 1), params / (terms + 1)
    channels = np.where(is_whole(channels) & ~is_whole(with_bias), channels, with_bias)
    return terms, np.where((terms > 0) & (params > 0), np.maximum(channels, 1), 0.0)


def is_whole(values: Floats) -> Bools:
    """(n,) which are whole numbers, as far as divisions tell."""
    return np.abs(values - np.round(values)) < 1e-6


def identify(operator: pd.Series[str]) -> Ints:
    """(n,) position of each operator in `OPERATORS`; a backward pass counts as its operator, an unknown one as 0."""
    code, known = factorize(operator)
    return np.array([_PLACE.get(_plain(name), 0) for name in known], np.int64)[code]


def _plain(name: object) -> str:
    """The operator that a name is of, or is taken for."""
    forward = _BACKWARD.sub("", str(name))
    return _KNOWN.get(forward, forward)
