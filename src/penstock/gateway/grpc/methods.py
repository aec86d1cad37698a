"""From a method of the description to a function of this folder: authentication, messages, errors.

A call with one message is read as a stream of one, so that a message that does not arrive in time can be
given up. gRPC reports a message only when it is whole. So room for the largest message is reserved before the
read, and a slow client is given up sooner while room is short. A stream may rest between its messages, so
nothing is reserved for it: each may hold one incomplete message beside the bytes that are counted. It is read
only for principals with its right to some topic.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from penstock.access.places import ByteShare, Holder, holder_of
from penstock.access.resource import AccessRight, ResourceKind
from penstock.errors import BodyLate, GatewayBusy, InvalidInput, NotAllowed

from ..door import SMALL_BYTES
from .door import GrpcCall, GrpcDoor, principal_of
from .messages import check_parts, service
from .problems import CallProblem, problem_of

_SHORT_SECONDS = 2.0  # for a message to arrive while room is short
_STREAMS = {"PublishStream": AccessRight.WRITE, "Subscribe": AccessRight.READ}  # the right that each needs
Send = Callable[[Any], Awaitable[None]]
OneMethod = Callable[[GrpcCall, Any], Awaitable[Any]]
StreamMethod = Callable[[GrpcCall, AsyncIterator[Any], Send], Awaitable[None]]


def handlers_of(door: GrpcDoor, name: str, methods: Mapping[str, Callable[..., Any]]) -> dict[str, Any]:
    """Return the handlers of a service: a function for each of its methods, by name."""
    described = service(name).methods
    assert methods.keys() == {each.name for each in described}, f"{name} has other methods"
    made = {}
    for each in described:
        request, work = GetMessageClass(each.input_type), methods[each.name]
        if each.client_streaming:
            made[each.name] = grpc.stream_stream_rpc_method_handler(
                _streaming(door, request, work, _STREAMS[each.name])
            )
        else:
            made[each.name] = grpc.stream_unary_rpc_method_handler(_answering(door, request, work))
    return made


def _answering(door: GrpcDoor, request: Any, work: OneMethod) -> Any:
    async def answer(messages: AsyncIterator[bytes], context: Any) -> bytes:
        async def done() -> bytes:
            with await admitted(door, context) as call:
                holder = holder_of(call.principal)
                data = await _first(door, messages, holder)
                with ByteShare(door.bodies, holder) as share:
                    share.admit(len(data))
                    asked = await _read(door, request, data)
                    del data  # else the loop frees all of it in one piece at the end
                    encoded: bytes = (await work(call, asked)).SerializeToString()
                    return encoded

        encoded: bytes = await _ended_well(done(), context)
        return encoded

    return answer


def _streaming(door: GrpcDoor, request: Any, work: StreamMethod, right: AccessRight) -> Any:
    async def answer(messages: AsyncIterator[bytes], context: Any) -> None:
        async def requests() -> AsyncIterator[Any]:
            async for each in messages:
                yield await _read(door, request, each)

        async def send(message: Any) -> None:
            await context.write(message.SerializeToString())

        async def done() -> None:
            with await admitted(door, context) as call:
                if not door.access.allowed_some(call.principal, right, ResourceKind.TOPIC):
                    raise NotAllowed(call.principal.name, right, ResourceKind.TOPIC)
                # By default grpcio sends it with the first message; if that is cancelled, no status is sent.
                await context.send_initial_metadata(())
                await work(call, requests(), send)

        await _ended_well(done(), context)

    return answer


async def admitted(door: GrpcDoor, context: Any) -> AbstractContextManager[GrpcCall]:
    """Return the call, which holds a place of its principal until its end.

    A grpcio callback for this would keep the rest of each call alive until Python looks for cycles.
    """
    principal = await principal_of(door.access, context, secrets_in_plaintext=door.secrets_in_plaintext)
    held_by = holder_of(principal)
    if not door.calls.take(held_by):
        most = door.settings.connections
        raise GatewayBusy(f"you have as many of {most} calls as one client may (gateway.connections); end some")

    @contextmanager
    def held() -> Iterator[GrpcCall]:
        try:
            yield GrpcCall(door, principal, dict(context.invocation_metadata() or ()))
        finally:
            door.calls.give_back(held_by)

    return held()


async def _first(door: GrpcDoor, messages: AsyncIterator[bytes], holder: Holder) -> bytes:
    seconds = door.settings.body_time.total_seconds()
    with ByteShare(door.reading, holder) as share:
        try:
            async with asyncio.timeout(seconds):
                await share.wait(door.settings.body_bytes)
        except TimeoutError as exc:
            used, most = door.reading.used, door.reading.most
            why = f"messages that are being received hold {used} of {most} bytes (half of gateway.bodies_bytes)"
            raise GatewayBusy(why) from exc
        if door.reading.is_short:
            seconds = min(seconds, _SHORT_SECONDS)
        try:
            async with asyncio.timeout(seconds):
                return await anext(messages)
        except StopAsyncIteration:
            raise InvalidInput("the call has no message") from None
        except TimeoutError as exc:
            raise BodyLate(seconds) from exc


async def _read(door: GrpcDoor, request: Any, data: bytes) -> Any:
    """Parse a message: long ones in a thread. Raises InvalidInput."""

    def message() -> Any:
        check_parts(request, data)
        try:
            return request.FromString(data)
        except DecodeError:
            raise InvalidInput(f"the message is no {request.DESCRIPTOR.full_name}") from None

    return message() if len(data) <= SMALL_BYTES else await door.in_thread(message)


async def _ended_well(work: Awaitable[Any], context: Any) -> Any:
    try:
        return await work
    except grpc.aio.BaseError:
        raise  # the client has gone, or the call has ended already
    except Exception as exc:
        problem = problem_of(exc)
    return await refuse(context, problem)


async def refuse(context: Any, problem: CallProblem) -> None:
    """End a call with an error."""
    try:
        await context.abort(*problem)
    except grpc.aio.AbortError as exc:
        # grpcio keeps the error with the call, and a frame of it has the call: break this cycle.
        task, without_frames = asyncio.current_task(), exc.with_traceback
        assert task is not None
        task.add_done_callback(lambda _: without_frames(None))
        raise
