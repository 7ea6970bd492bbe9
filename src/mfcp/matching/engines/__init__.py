"""Ways to match rounds: one file per engine, each a member of `Engine`."""
