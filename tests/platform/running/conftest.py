"""Slurm clusters of the tests' own."""

from slurm_here import slurm  # noqa: F401
