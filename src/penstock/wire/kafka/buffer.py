"""Bytes as they come and go, copied or not."""

Buffer = bytes | bytearray | memoryview
