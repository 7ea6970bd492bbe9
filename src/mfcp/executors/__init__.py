"""Executors: how attempts of tasks run on a cluster, and what becomes of them."""
