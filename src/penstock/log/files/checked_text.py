"""Small readable files: one line of text, and a second line with its CRC32C in hex."""

from fastcrc.crc32 import iscsi as crc32c


def encode_checked(line: bytes) -> bytes:
    """Return the bytes of a file that holds a line."""
    return b"%b\n%08x\n" % (line, crc32c(line))


def decode_checked(content: bytes) -> bytes | None:
    """Return the line of a file; None if it is damaged."""
    line, _, _ = content.partition(b"\n")
    return line if content == encode_checked(line) else None
