"""Traces of jobs: read from files, checked, described."""
