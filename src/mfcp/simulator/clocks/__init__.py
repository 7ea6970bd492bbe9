"""Clocks of the simulator: what makes time pass, compiled."""
