"""The state of a platform: its folder, its database, its tables and operations on them."""
