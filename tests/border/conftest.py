from small_logs import small_log  # noqa: F401
