"""The matching problem of [Huo2025]_, its exact and relaxed solutions, and their derivatives."""
