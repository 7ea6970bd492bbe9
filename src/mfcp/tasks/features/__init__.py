"""From operator graphs and task rows to feature vectors."""
