"""From logs to a task pool: the log schema, sources of logs, aggregation, and stand-ins for what a log lacks."""
