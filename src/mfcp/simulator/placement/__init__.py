"""Which node takes a task that may ask for a part of an accelerator."""
