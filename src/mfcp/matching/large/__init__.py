"""Matching at any size: prices with a certified bound over few candidates per task, then rounding and local search."""
