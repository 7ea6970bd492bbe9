"""The table of the zoo: real architectures as configurations of `transformers`, scaled in depth and width.

Shapes are those of CIFAR-10 (32 pixels), ImageNet (224 pixels) and Europarl-like text (32 to 256 tokens).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

STATE_BYTES = {"sgd": 4, "adamw": 8, "adam": 8}
"""Bytes of state per parameter that an optimizer keeps; SGD's is its momentum."""


@dataclass(frozen=True)
class Family:
    """One model family: its class in `transformers`, its sizes, and the inputs it is trained on.

    Args:
        name: `family` of the tasks table, what splits are made by.
        domain: cv or nlp.
        config, model: class names in `transformers`.
        sizes: configuration fields of each size.
        shapes: image sides in pixels, or lengths in tokens, with further configuration fields of each.
        optimizer: that it is trained with, of `STATE_BYTES`.
    """

    name: str
    domain: str
    config: str
    model: str
    sizes: Mapping[str, Mapping[str, Any]]
    shapes: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    optimizer: str = "adamw"


def _grid(keys: str, rows: Mapping[str, Sequence[Any]], **shared: Any) -> dict[str, dict[str, Any]]:
    names = keys.split()
    return {size: {**dict(zip(names, row, strict=True)), **shared} for size, row in rows.items()}


def _encoder(rows: Mapping[str, tuple[int, int]], ratio: int = 4, **shared: Any) -> dict[str, dict[str, Any]]:
    """Transformer sizes from (layers, width), with heads of 64 and a feed-forward of `ratio` times the width."""
    return {
        size: {
            "num_hidden_layers": depth,
            "hidden_size": width,
            "num_attention_heads": width // 64,
            "intermediate_size": ratio * width,
            **shared,
        }
        for size, (depth, width) in rows.items()
    }


def _translator(rows: Mapping[str, tuple[int, int, int]]) -> dict[str, dict[str, Any]]:
    """Encoder-decoder sizes from (encoder layers, decoder layers, width), with heads of 64."""
    return {
        size: {"encoder_layers": encoder, "decoder_layers": decoder, "d_model": width}
        | {f"{side}_ffn_dim": 4 * width for side in ("encoder", "decoder")}
        | {f"{side}_attention_heads": width // 64 for side in ("encoder", "decoder")}
        for size, (encoder, decoder, width) in rows.items()
    }


_IMAGES: dict[int, dict[str, Any]] = {32: {}, 224: {}}
_SIDES: dict[int, dict[str, Any]] = {32: {"image_size": 32}, 224: {"image_size": 224}}
_PATCHES: dict[int, dict[str, Any]] = {
    32: {"image_size": 32, "patch_size": 4},
    224: {"image_size": 224, "patch_size": 16},
}
_SENTENCES: dict[int, dict[str, Any]] = {32: {}, 128: {}}
_DOCUMENTS: dict[int, dict[str, Any]] = {64: {}, 256: {}}
_VIT = {"tiny": (12, 192), "small": (12, 384), "base": (12, 768), "deep": (24, 384)}
_RESNET_WIDTHS = [256, 512, 1024, 2048]

# fmt: off
VISION = (
    Family(
        "resnet", "cv", "ResNetConfig", "ResNetForImageClassification",
        _grid("layer_type depths hidden_sizes", {
            "18": ("basic", [2, 2, 2, 2], [64, 128, 256, 512]),
            "34": ("basic", [3, 4, 6, 3], [64, 128, 256, 512]),
            "50": ("bottleneck", [3, 4, 6, 3], _RESNET_WIDTHS),
            "101": ("bottleneck", [3, 4, 23, 3], _RESNET_WIDTHS),
        }), _IMAGES, "sgd",
    ),
    Family(
        "regnet", "cv", "RegNetConfig", "RegNetForImageClassification",
        _grid("depths hidden_sizes groups_width", {
            "y-400mf": ([1, 3, 6, 6], [48, 104, 208, 440], 8),
            "y-1.6gf": ([2, 6, 17, 2], [48, 120, 336, 888], 24),
            "y-4gf": ([2, 6, 12, 2], [128, 192, 512, 1088], 64),
        }), _IMAGES, "sgd",
    ),
    Family(
        "mobilenet_v2", "cv", "MobileNetV2Config", "MobileNetV2ForImageClassification",
        _grid("depth_multiplier", {"0.5": (0.5,), "0.75": (0.75,), "1.0": (1.0,), "1.4": (1.4,)}), _SIDES, "sgd",
    ),
    Family(
        "efficientnet", "cv", "EfficientNetConfig", "EfficientNetForImageClassification",
        _grid("width_coefficient depth_coefficient hidden_dim", {
            "b0": (1.0, 1.0, 1280), "b1": (1.0, 1.1, 1280), "b3": (1.2, 1.4, 1536),
        }), _SIDES, "sgd",
    ),
    Family(
        "convnext", "cv", "ConvNextConfig", "ConvNextForImageClassification",
        _grid("depths hidden_sizes", {
            "atto": ([2, 2, 6, 2], [40, 80, 160, 320]),
            "nano": ([2, 2, 8, 2], [80, 160, 320, 640]),
            "tiny": ([3, 3, 9, 3], [96, 192, 384, 768]),
            "base": ([3, 3, 27, 3], [128, 256, 512, 1024]),
        }), {32: {"image_size": 32, "patch_size": 2}, 224: {"image_size": 224}},
    ),
    Family("vit", "cv", "ViTConfig", "ViTForImageClassification", _encoder(_VIT), _PATCHES),
    Family(
        "deit", "cv", "DeiTConfig", "DeiTForImageClassification",
        _encoder({size: _VIT[size] for size in ("tiny", "small", "base")}), _PATCHES,
    ),
    Family(
        "beit", "cv", "BeitConfig", "BeitForImageClassification",
        _encoder({"small": (12, 384), "base": (12, 768)}, use_relative_position_bias=True), _PATCHES,
    ),
    Family(
        "swin", "cv", "SwinConfig", "SwinForImageClassification",
        _grid("depths embed_dim num_heads", {
            "nano": ([2, 2, 2, 2], 48, [2, 4, 8, 16]),
            "tiny": ([2, 2, 6, 2], 96, [3, 6, 12, 24]),
            "small": ([2, 2, 18, 2], 96, [3, 6, 12, 24]),
        }),
        {
            32: {"image_size": 32, "patch_size": 1, "window_size": 4},
            224: {"image_size": 224, "patch_size": 4, "window_size": 7},
        },
    ),
    Family(
        "segformer", "cv", "SegformerConfig", "SegformerForImageClassification",
        _grid("depths hidden_sizes", {
            "b0": ([2, 2, 2, 2], [32, 64, 160, 256]),
            "b1": ([2, 2, 2, 2], [64, 128, 320, 512]),
            "b2": ([3, 4, 6, 3], [64, 128, 320, 512]),
        }), _IMAGES,
    ),
    Family(
        "poolformer", "cv", "PoolFormerConfig", "PoolFormerForImageClassification",
        _grid("depths hidden_sizes", {
            "s12": ([2, 2, 6, 2], [64, 128, 320, 512]),
            "s24": ([4, 4, 12, 4], [64, 128, 320, 512]),
        }), _IMAGES,
    ),
)

LANGUAGE = (
    Family(
        "bert", "nlp", "BertConfig", "BertForMaskedLM",
        _encoder({"mini": (4, 256), "small": (4, 512), "medium": (8, 512), "base": (12, 768), "large": (24, 1024)}),
        _SENTENCES,
    ),
    Family(
        "distilbert", "nlp", "DistilBertConfig", "DistilBertForMaskedLM",
        _grid("n_layers dim n_heads hidden_dim", {
            "small": (3, 512, 8, 2048), "medium": (6, 512, 8, 2048), "base": (6, 768, 12, 3072),
        }), _SENTENCES,
    ),
    Family(
        "albert", "nlp", "AlbertConfig", "AlbertForMaskedLM",
        _encoder({"small": (6, 512), "base": (12, 768), "large": (24, 1024)}, embedding_size=128), _SENTENCES,
    ),
    Family(
        "electra", "nlp", "ElectraConfig", "ElectraForMaskedLM",
        _encoder({"small": (12, 256), "base": (12, 768)}, embedding_size=128), _SENTENCES,
    ),
    Family(
        "gpt2", "nlp", "GPT2Config", "GPT2LMHeadModel",
        _grid("n_layer n_embd n_head", {"mini": (4, 256, 4), "small": (12, 768, 12), "medium": (24, 1024, 16)}),
        _DOCUMENTS,
    ),
    Family(
        "opt", "nlp", "OPTConfig", "OPTForCausalLM",
        _grid("num_hidden_layers hidden_size ffn_dim num_attention_heads", {
            "mini": (6, 512, 2048, 8), "125m": (12, 768, 3072, 12), "350m": (24, 1024, 4096, 16),
        }), _DOCUMENTS,
    ),
    Family(
        "gpt_neo", "nlp", "GPTNeoConfig", "GPTNeoForCausalLM",
        _grid("num_layers hidden_size num_heads attention_types", {
            "33m": (4, 768, 16, [[["global", "local"], 2]]), "125m": (12, 768, 12, [[["global", "local"], 6]]),
        }), _DOCUMENTS,
    ),
    Family(
        "t5", "nlp", "T5Config", "T5ForConditionalGeneration",
        _grid("num_layers d_model d_ff num_heads", {
            "mini": (4, 384, 1536, 8), "small": (6, 512, 2048, 8), "base": (12, 768, 3072, 12),
        }), _SENTENCES,
    ),
    Family(
        "marian", "nlp", "MarianConfig", "MarianMTModel",
        _translator({"tiny": (3, 3, 256), "base": (6, 6, 512), "deep": (12, 2, 512)}), _SENTENCES,
    ),
    Family(
        "bart", "nlp", "BartConfig", "BartForConditionalGeneration",
        _translator({"base": (6, 6, 768), "large": (12, 12, 1024)}), _SENTENCES,
    ),
)
# fmt: on

FAMILIES = (*VISION, *LANGUAGE)
