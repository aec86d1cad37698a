"""The type of byte buffers."""

Buffer = bytes | bytearray | memoryview
