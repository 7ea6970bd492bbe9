"""The log schema: reading, checking and writing its tables."""
