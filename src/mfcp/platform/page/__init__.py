"""The page of a platform for a browser: rounds, releases, explanations, and what another wish would change."""
