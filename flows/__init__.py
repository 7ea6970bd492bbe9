"""Prefect decides when the pipeline runs, with what retries and alerts; DVC decides what is stale."""
