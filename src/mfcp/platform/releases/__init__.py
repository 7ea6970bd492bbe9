"""The releases of a platform: kept, monitored, compared and promoted."""
