"""grpcio's server, hardened: no bytes in a call's head can end it or make it log a traceback.

Newer versions decode the path of a call in the loop that accepts all calls: a path that is not UTF-8 ends
that loop, and with it the door. They do not decode the paths of registered methods there. So this server's
own loop accepts all other calls, and answers UNIMPLEMENTED without looking at the path.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import grpc.aio
from grpc._cython import cygrpc
from grpc.aio import _server as aio_server

_NOBODYS = "/"  # stands for a method whose path cannot be read


class _SteadyServer(cygrpc.AioServer):  # type: ignore[misc]
    def _make_request_call_future(self, method_bytes: bytes | None) -> Any:
        if method_bytes is not None:
            return super()._make_request_call_future(method_bytes)
        return asyncio.get_running_loop().create_task(self._take_unknown())

    async def _take_unknown(self) -> None:
        """Refuse calls of unregistered methods, until grpcio says that the server ends."""
        loop, running = asyncio.get_running_loop(), set[asyncio.Task[None]]()
        resolver = cygrpc._MethodResolver([], {})
        while True:
            state = await super()._request_call()
            refused = cygrpc._handle_rpc(_NOBODYS, resolver, (), state, loop, False)
            task = loop.create_task(cygrpc._schedule_rpc_coro(refused, state, loop, _NOBODYS))
            running.add(task)
            task.add_done_callback(running.discard)


def made_server(
    *, interceptors: Sequence[Any], maximum_concurrent_rpcs: int, options: list[tuple[str, int]]
) -> Any:
    """Return a server, as `grpc.aio.server` does; its services have to be registered."""
    made = grpc.aio.server(
        interceptors=interceptors, maximum_concurrent_rpcs=maximum_concurrent_rpcs, options=options
    )
    if hasattr(cygrpc.AioServer, "_make_request_call_future"):  # older ones decode it in the call
        given = aio_server._augment_channel_arguments(options, None)
        made._server = _SteadyServer(made._loop, None, (), interceptors, given, maximum_concurrent_rpcs)
    logging.getLogger("grpc._cython.cygrpc").addFilter(_is_not_of_metadata)
    return made


def _is_not_of_metadata(line: logging.LogRecord) -> bool:
    """Drop the line about client metadata that is not text: each would be a traceback."""
    return not str(line.msg).startswith("Invalid encoding")
