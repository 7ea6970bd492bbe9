"""From operator graphs to seconds: rooflines, networks over operators, and corrections from few runs."""
