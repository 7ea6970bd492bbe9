"""The square root as IEEE 754 has it, the same on every processor.

Torch takes MKL's, which starts from an approximation that AMD's and Intel's processors do not share, and is off in the
last bit of one number in six (float32).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor


class _Root(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        root = torch.from_numpy(np.sqrt(x.detach().numpy()))
        ctx.save_for_backward(root)
        return root

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        root: Tensor = ctx.saved_tensors[0]
        return gradient / (2 * root)


def square_root(x: Tensor) -> Tensor:
    """Correctly rounded square root; its derivative once. On other devices than the CPU, theirs."""
    if x.device.type != "cpu":
        return x.sqrt()
    root: Tensor = _Root.apply(x)  # type: ignore[no-untyped-call]
    return root
