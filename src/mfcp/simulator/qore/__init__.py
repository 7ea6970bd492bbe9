"""Qore-DL: its equations, its adjuster, and convergence from loss curves."""
