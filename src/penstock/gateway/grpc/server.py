"""grpcio's server, which a call with any bytes in its head neither ends nor makes log a traceback.

Its newer versions decode the path of a call in the loop that takes all calls: a path that is not UTF-8 ends
that loop, and with it the door. The paths of registered methods are not decoded there. So a loop of ours
takes the calls of all others, and answers UNIMPLEMENTED without a look at the path.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import grpc.aio
from grpc._cython import cygrpc
from grpc.aio import _server as aio_server

_NOBODYS = "/"  # the method that is asked for, in place of one that cannot be read


class _SteadyServer(cygrpc.AioServer):  # type: ignore[misc]
    def _make_request_call_future(self, method_bytes: bytes | None) -> Any:
        if method_bytes is not None:
            return super()._make_request_call_future(method_bytes)
        return asyncio.get_running_loop().create_task(self._take_unknown())

    async def _take_unknown(self) -> None:
        """Refuse calls of methods that are not registered, until grpcio says that the server ends."""
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
    """Return a server, as `grpc.aio.server` does; what it serves has to be registered."""
    made = grpc.aio.server(
        interceptors=interceptors, maximum_concurrent_rpcs=maximum_concurrent_rpcs, options=options
    )
    if hasattr(cygrpc.AioServer, "_make_request_call_future"):  # older ones decode it in the call
        given = aio_server._augment_channel_arguments(options, None)
        made._server = _SteadyServer(made._loop, None, (), interceptors, given, maximum_concurrent_rpcs)
    logging.getLogger("grpc._cython.cygrpc").addFilter(_is_not_of_metadata)
    return made


def _is_not_of_metadata(line: logging.LogRecord) -> bool:
    """Leave out that a client has sent metadata which is no text: each would be a traceback."""
    return not str(line.msg).startswith("Invalid encoding")
