from small_platform import graphs, small  # noqa: F401
