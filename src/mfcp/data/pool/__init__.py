"""The task pool: one number per (task, cluster) pair, made from a log."""
