"""Plans as jobs on real clusters: attempts of tasks, from their intent to the rows of the log."""
