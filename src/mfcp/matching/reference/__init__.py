"""What [Huo2025]_ prints, taken literally: references for tests and for the reproduction. Nothing else runs them."""
