"""The relaxed matching problem of [Huo2025]_: its optimum and the derivatives of that optimum."""
