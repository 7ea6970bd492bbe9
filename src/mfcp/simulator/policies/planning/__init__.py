"""Policies that plan rigid jobs."""
