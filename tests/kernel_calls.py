"""Kernels that only other kernels call, made callable from Python."""

import numba


def from_python(function):
    """A kernel around an `mfcp.compiling.inner` one."""

    @numba.njit
    def call(*arguments):
        return function(*arguments)

    return call
