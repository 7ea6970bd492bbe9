"""Prefect decides when the pipeline runs, with what retries and alerts; DVC decides what is stale."""

from mfcp.environment import collect_seldom, same_instructions

collect_seldom()
same_instructions()  # before anything imports NumPy; the stages do so themselves
