"""Frames of TinyQ sent back as they came, by asyncio alone: `python -m bench.doors.echo PORT`."""

import asyncio
import struct
import sys

_HEAD = struct.Struct(">BI")


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send every frame back."""
    try:
        while True:
            head = await reader.readexactly(_HEAD.size)
            body = await reader.readexactly(_HEAD.unpack(head)[1])
            writer.write(head + body)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main(port: int) -> None:
    """Serve until it is ended."""
    server = await asyncio.start_server(serve, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
