"""Policies that share the time on types of accelerators."""
