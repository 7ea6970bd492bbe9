# mypy: allow-untyped-defs, allow-untyped-decorators
"""Copies from array to array within kernels.

`into[:] = values` would do, but Numba then compiles the text of an error about shapes with it, for a second or two.
"""

from __future__ import annotations

from mfcp.compiling import inner


@inner
def copy_row(values, into):
    """`into[:] = values`, both of one dimension."""
    for j in range(len(values)):
        into[j] = values[j]


@inner
def copy_rows(values, into):
    """`into[:] = values`, both of two dimensions."""
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            into[i, j] = values[i, j]
