"""Compiled loops (numba) of the matching solvers, and how they are compiled and kept."""
