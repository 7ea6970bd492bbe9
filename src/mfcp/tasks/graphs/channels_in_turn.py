"""Operators of which a GPU does one channel after another.

Eager PyTorch interpolates bilinearly with a thread for each pixel of the result, which goes through all channels of all
samples (pytorch/pytorch#19306). Small images have few pixels; then nearly nothing of a GPU is at work. Where the
channels of a pixel are side by side in memory, every element has a thread of its own (pytorch/pytorch#56322): so it is
after a product over tokens, and so it is not after a convolution of a layout with channels first.
"""

from __future__ import annotations

import numpy as np

from mfcp.arrays import Bools, Floats, Ints
from mfcp.tasks.graphs.operators import CLASS_NAMES, products

IN_TURN = "upsample_bilinear2d"
_CONVOLUTIONS = [CLASS_NAMES.index(name) for name in ("convolution", "thin_convolution")]
_KEEP_CHANNELS = [CLASS_NAMES.index(name) for name in ("batch_norm", "activation", "arithmetic", "movement")]
_REACH = 8  # operators between a convolution and what is asked about


def channels_in_turn(asked: Bools, kind: Ints, flops: Floats, numel: Floats, params: Floats, edges: Ints) -> Floats:
    """(n,) channels that an operator goes through in turn for each sample, 0 for most.

    They are those of the convolution before it, reached through what keeps channels; where none is, there are none.

    Args:
        asked: (n,) which operators are `IN_TURN`; all else as in `GraphArrays`.
    """
    if not asked.any():
        return np.zeros(len(asked))
    convolution = np.isin(kind, _CONVOLUTIONS)
    # However many weights are told, a channel has an output.
    own = np.where(convolution, np.minimum(products(flops, numel, params)[1], numel), 0.0)
    carries = np.isin(kind, _KEEP_CHANNELS)
    producers, consumers = edges[:, carries[edges[1]]]
    channels = own
    for _ in range(_REACH):
        before, channels = channels, own.copy()
        np.maximum.at(channels, consumers, before[producers])
    return np.where(asked, channels, 0.0)
