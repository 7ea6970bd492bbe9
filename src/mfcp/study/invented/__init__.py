"""What an experiment may invent where a log does not tell it. Operation never imports this (tests/test_layers.py)."""
