"""Kafka's own byte layouts."""

Buffer = bytes | bytearray | memoryview
