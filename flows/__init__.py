"""Prefect decides when the pipeline runs, with what retries and alerts; DVC decides what is stale."""

from mfcp.environment import same_instructions

same_instructions()  # before anything imports NumPy; the stages do so themselves
