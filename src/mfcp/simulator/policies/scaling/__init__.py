"""Policies that choose the size of elastic jobs."""
