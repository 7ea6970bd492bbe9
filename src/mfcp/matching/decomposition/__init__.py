"""ADMM between resources and demands: the algorithm, matching stated for it, and plans from its fractions."""
