"""Policies that order jobs by a key."""
