"""Codecs without I/O: bytes to values and back, one folder per protocol."""
