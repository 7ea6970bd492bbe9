"""The compiled parts of the clock of events."""
