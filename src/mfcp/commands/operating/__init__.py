"""The commands of who operates a platform."""
