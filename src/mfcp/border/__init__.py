"""The border: where bytes that nobody vouches for become tables, matrices, settings and JSON.

Whatever a file holds, its reader here gives the content or raises `DataError`, within the bounds of `limits`.
"""
