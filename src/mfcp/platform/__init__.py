"""A platform's day: tasks come in, rounds are matched, releases are promoted, logs come back."""
