"""Rounds of pending tasks: prediction, plan, explanation, and what is reported of them."""
