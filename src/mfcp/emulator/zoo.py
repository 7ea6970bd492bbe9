"""Builds the architectures of the zoo without weights and captures their graphs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from logging import ERROR
from typing import TYPE_CHECKING, Any

import pandas as pd

from mfcp.emulator.architectures import FAMILIES, Family
from mfcp.errors import SettingsError
from mfcp.threads import beside

if TYPE_CHECKING:
    import torch

CLASSES = {32: 10, 224: 1000}
"""Classes that a vision model tells apart, by the side of its images."""
_SEQUENCE_TO_SEQUENCE = frozenset({"t5", "marian", "bart"})
_EXPLICIT_MASK = frozenset({"gpt2", "gpt_neo"})
_MANY = 60  # variants that are worth processes of their own: some five seconds of captures


@dataclass(frozen=True)
class Variant:
    """One graph of the zoo: a family at one size and one input shape (pixels or tokens)."""

    family: Family
    size: str
    shape: int

    @property
    def model(self) -> str:
        """Name of the model, without the input shape."""
        return f"{self.family.name}-{self.size}"

    @property
    def graph_id(self) -> str:
        """Model and input shape, named as in the published tables: model@shape."""
        return f"{self.model}@{self.shape}"


def variants(families: Sequence[str] = ()) -> list[Variant]:
    """All variants of the named families, in the table's order; of every family when none is named.

    Raises:
        SettingsError: a family that is not in the zoo.
    """
    known = [family.name for family in FAMILIES]
    unknown = sorted(set(families) - set(known))
    if unknown:
        raise SettingsError(f"unknown family '{unknown[0]}'; known: {', '.join(known)}")
    chosen = [family for family in FAMILIES if not families or family.name in families]
    return [Variant(family, size, shape) for family in chosen for size in family.sizes for shape in family.shapes]


def build(
    variant: Variant, device: str = "meta", *, classes: Mapping[int, int] = CLASSES
) -> tuple[torch.nn.Module, dict[str, Any]]:
    """The model of a variant on a device, and keyword arguments of one sample to call it with; only their shapes hold.

    On the meta device it has no weights, elsewhere random ones. A side that the zoo has not needs its own `classes`.
    """
    import torch
    import transformers

    family, shape = variant.family, variant.shape
    fields: dict[str, Any] = {**family.sizes[variant.size], **family.shapes[shape]}
    fields |= {"num_labels": classes[shape]} if family.domain == "cv" else {"use_cache": False}
    with quiet(), torch.device(device):
        model = getattr(transformers, family.model)(getattr(transformers, family.config)(**fields))
        if family.domain == "cv":
            return model, {"pixel_values": torch.empty(1, 3, shape, shape)}
        inputs = {"input_ids": torch.zeros(1, shape, dtype=torch.long)}
        # A mask of four dimensions is taken as it is; any other is inspected for its values, which meta tensors lack.
        mask = torch.zeros(1, 1, shape, shape)
        if family.name in _SEQUENCE_TO_SEQUENCE:
            inputs |= {"decoder_input_ids": inputs["input_ids"], "decoder_attention_mask": mask}
        elif family.name in _EXPLICIT_MASK:
            inputs |= {"attention_mask": mask}
        return model, inputs


def with_labels(variant: Variant, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of `build` and labels, with which the model's output has the loss that it is trained with."""
    import torch

    if variant.family.domain == "cv":
        return {**inputs, "labels": torch.zeros(1, dtype=torch.long, device="meta")}
    return {**inputs, "labels": inputs["input_ids"]}


def capture_all(
    chosen: Iterable[Variant], *, classes: Mapping[int, int] = CLASSES
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The `nodes` and `edges` tables of these variants, one after another; `classes` as for `build`."""
    chosen = list(chosen)
    families: dict[str, list[Variant]] = {}
    for variant in chosen:
        families.setdefault(variant.family.name, []).append(variant)
    calls = [(own, classes) for own in sorted(families.values(), key=len, reverse=True)]
    needs = ("mfcp.tasks.capture.model_graph", "transformers.modeling_utils")
    parts = beside(_captured, calls, worth=len(chosen) >= _MANY, imports=needs)
    found = {graph_id: tables for part in parts for graph_id, tables in part.items()}
    nodes, edges = zip(*(found[variant.graph_id] for variant in chosen), strict=True)
    return pd.concat(nodes, ignore_index=True), pd.concat(edges, ignore_index=True)


def _captured(
    chosen: Iterable[Variant], classes: Mapping[int, int], advance: Callable[[], Any]
) -> dict[str, tuple[pd.DataFrame, pd.DataFrame]]:
    """Nodes and edges of variants, by graph id."""
    from mfcp.tasks.capture.model_graph import capture

    found = {}
    for variant in chosen:
        model, inputs = build(variant, classes=classes)
        with quiet():
            found[variant.graph_id] = capture(model, inputs, variant.graph_id)
        advance()
    return found


def activations(nodes: pd.DataFrame) -> pd.Series[float]:
    """Elements that each operator puts out where it is a convolution or linear layer, else 0.

    Summed over a graph of one sample they are `activations` of table tasks.
    """
    return nodes["output_numel"].where(nodes["op"].isin(("convolution", "addmm", "mm")), 0)


@contextmanager
def quiet() -> Iterator[None]:
    """Silences what `transformers` says about optional packages and deprecated settings of its own."""
    from transformers.utils import logging

    level = logging.get_verbosity()
    logging.set_verbosity(ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="transformers")
            yield
    finally:
        logging.set_verbosity(level)
