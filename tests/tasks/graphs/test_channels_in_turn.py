"""Interpolations of which a GPU does one channel after another."""

import numpy as np
import pytest
import torch
from graphs_by_hand import join, tables
from torch import nn

from mfcp.tasks.capture.model_graph import capture
from mfcp.tasks.graphs.operator_graphs import build_graphs

UP = "upsample_bilinear2d"


def in_turn(operators, edges, channels=0, extra=0):
    """Channels in turn of a graph whose convolutions have 9 terms and so many channels, with a bias or without."""
    nodes, edges = tables(operators, edges)
    is_convolution = nodes["op"] == "convolution"
    numel = np.where(is_convolution, 49 * channels, 5)
    nodes = nodes.assign(
        output_numel=numel,
        flops=np.where(is_convolution, 2 * 9 * numel, 0),
        param_count=np.where(is_convolution, channels * (9 + extra), 0),
    )
    return build_graphs(nodes, edges).in_turn.tolist()


@pytest.mark.parametrize("bias", [0, 1])
def test_they_are_those_of_the_convolution_before(bias):
    """Attention, whose values went through a convolution as well: of 1,024 channels."""
    operators = ["bmm", "clone", "convolution", "native_batch_norm", "add", UP, "gelu"]
    edges = [(0, 1), (1, 4), (2, 3), (3, 4), (4, 5), (5, 6)]
    assert in_turn(operators, edges, 1024, bias) == [0, 0, 0, 0, 0, 1024, 0]


def test_a_capture_tells_them_of_a_forward_pass_alone():
    """A decoder of 48 channels; the backward pass of an interpolation has a thread for every element."""
    model = nn.Sequential(
        nn.Conv2d(3, 48, 3), nn.BatchNorm2d(48), nn.ReLU(), nn.Upsample(scale_factor=2, mode="bilinear")
    )
    nodes, edges = capture(model, (torch.zeros(1, 3, 16, 16),), "g", optimizer="sgd", loss=torch.sum)
    found = dict(zip(nodes["op"], build_graphs(nodes, edges).in_turn.tolist(), strict=True))
    assert {name: channels for name, channels in found.items() if channels} == {UP: 48}
    assert f"{UP}_backward" in found


def test_after_a_product_over_tokens_nothing_is_in_turn():
    operators = ["convolution", "native_layer_norm", "addmm", "clone", UP]
    assert in_turn(operators, [(k, k + 1) for k in range(4)], 64) == [0] * 5


@pytest.mark.parametrize("other", ["upsample_nearest2d", "upsample_bilinear2d_backward", "relu"])
def test_other_operators_are_not(other):
    assert in_turn(["convolution", other], [(0, 1)], 64) == [0, 0]
    assert in_turn(["convolution", UP], [(0, 1)], 64) == [0, 64]


def test_without_a_convolution_near_by_nothing_is_known():
    assert in_turn([UP, "relu"], [(0, 1)]) == [0, 0]
    far = ["convolution", *["relu"] * 30, UP]
    assert in_turn(far, [(k, k + 1) for k in range(31)], 64) == [0] * 32


def test_there_are_no_more_channels_than_outputs():
    """Of a convolution with 49 outputs and a quadrillion weights, as a damaged table may tell."""
    nodes, edges = tables(["convolution", UP], [(0, 1)])
    nodes = nodes.assign(output_numel=[49, 5], flops=[18.0 * 49, 0], param_count=[1e15, 0])
    assert build_graphs(nodes, edges).in_turn.tolist() == [0, 49]


def test_the_nearest_convolution_counts():
    """64 channels, then 4 by another one."""
    nodes, edges = tables(["convolution", "convolution", UP], [(0, 1), (1, 2)])
    numel = np.array([64 * 49, 4 * 49, 4 * 49])
    nodes = nodes.assign(output_numel=numel, flops=[18.0 * 64 * 49, 18.0 * 4 * 49, 0], param_count=[576, 36, 0])
    assert build_graphs(nodes, edges).in_turn.tolist() == [0, 0, 4]


def test_equal_operators_with_other_channels_are_two():
    parts = []
    for g, channels in enumerate((8, 16)):
        nodes, edges = tables(["convolution", "relu", UP, "relu"], [(0, 1), (1, 2), (2, 3)], f"g{g}")
        numel = [49 * channels, 5, 5, 5]
        parts.append(
            (
                nodes.assign(output_numel=numel, flops=[18.0 * numel[0], 0, 0, 0], param_count=[9 * channels, 0, 0, 0]),
                edges,
            )
        )
    distinct = build_graphs(*join(*parts)).distinct
    assert sorted(distinct.in_turn[distinct.in_turn > 0]) == [8, 16]
    assert (distinct.counts @ distinct.in_turn).tolist() == [8, 16]
