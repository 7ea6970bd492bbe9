"""Scheduling policies, a file each: in which order jobs run, how devices are shared, what is planned."""
