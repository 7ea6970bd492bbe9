"""Policies that let jobs share accelerators."""
