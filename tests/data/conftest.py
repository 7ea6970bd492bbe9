from small_logs import gavel_like, small_log, timm_like  # noqa: F401
