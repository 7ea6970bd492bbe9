"""Decision rules: how a plan follows from predictions. One file per rule."""
