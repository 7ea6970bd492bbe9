"""Policies of workers and parameter servers on hosts."""
