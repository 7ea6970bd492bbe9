"""A simulated platform: clusters that run what is assigned to them and return logs."""
