"""Deliveries of logs: from the inbox into the log."""
