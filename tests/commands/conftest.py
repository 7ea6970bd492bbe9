"""The fixtures of a small platform."""

from platform_fixtures import bad, good, home, postgres, store  # noqa: F401
