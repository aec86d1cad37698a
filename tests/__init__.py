"""Penstock's tests. A real package, so that a stray `tests` in site-packages cannot take its place."""
