# mypy: allow-untyped-defs, allow-untyped-decorators
"""Sorting by a loop, which is compiled in less time than `numpy.argsort`."""

from __future__ import annotations

import numpy as np

from mfcp.compiling import internal


@internal
def ascending(values):
    """(n,) positions of the values in ascending order; equal values stay as they stand. A merge sort."""
    n, width = len(values), 1
    order, other = np.empty(n, np.int64), np.empty(n, np.int64)
    for k in range(n):
        order[k] = k
    while width < n:
        for low in range(0, n, 2 * width):
            left, right = low, min(low + width, n)
            middle, high = right, min(low + 2 * width, n)
            for k in range(low, high):
                if left < middle and (right == high or values[order[left]] <= values[order[right]]):
                    other[k] = order[left]
                    left += 1
                else:
                    other[k] = order[right]
                    right += 1
        order, other, width = other, order, 2 * width
    return order
