"""Logs in a database: records are rows, and offsets are assigned under row locks of the heads."""
