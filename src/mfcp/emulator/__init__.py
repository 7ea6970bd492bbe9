"""An emulated exchange platform that writes raw logs in the schema of real ones."""
