"""Tailing a topic by server-sent events, as a browser's `EventSource` reads them.

| event    | data                                                                                    |
|----------|-----------------------------------------------------------------------------------------|
| `record` | a record, as reading gives it                                                           |
| `place`  | empty; its id is the position: sent as `Last-Event-ID`, it resumes the stream there     |
| `error`  | a problem; then the stream ends                                                         |

The position is `partition:offset`, several joined by commas. It follows the records that it stands for, so a
client that resumes there misses none and may see a few again. No group is needed, and nothing is stored.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator

from starlette.responses import Response, StreamingResponse

from penstock.access.places import holder_of
from penstock.access.resource import AccessRight, topic
from penstock.errors import Error, GatewayBusy, InvalidInput
from penstock.model.record import Record
from penstock.operate.tail import EARLIEST, LATEST, StoreTail, some

from ..door import tell_read
from .answers import record_shown
from .call import RestCall
from .operations import TOPIC, Operations, Parameter
from .problems import SAFE, encoded, problem_of

TAIL = Operations("records")
_AT_ONCE, _ABOUT_BYTES = 100, 1 << 18  # read together, and kept for a slow reader
_LOOK_SECONDS = 0.2
_QUIET_SECONDS = 10.0  # then a comment is sent, so that no proxy in between ends the connection


@TAIL.add(
    "GET",
    "/v1/topics/{topic}/events",
    TOPIC,
    Parameter("from", help=f"{EARLIEST} or {LATEST}.", default=LATEST, pattern="^(earliest|latest)$"),
    Parameter("partition", int, "Only this one.", least=0, most=9_999),
    Parameter("last-event-id", help="Where to go on.", place="header", longest=65_536),
    answers={200: {"type": "string"}},
    media_type="text/event-stream",
)
async def tail(call: RestCall) -> Response:
    """Send records as they come, as server-sent events."""
    name = call.of("topic", str)
    call.allow(AccessRight.READ, topic(name))
    call.admit(name)
    if not call.door.streams.has(holder_of(call.principal)):
        raise _full(call)
    opened = await call.door.in_thread(lambda: _opened(call, name))
    headers = SAFE | {"x-accel-buffering": "no"}
    return StreamingResponse(_events(call, name, opened), headers=headers, media_type="text/event-stream")


def _full(call: RestCall) -> GatewayBusy:
    streams = call.door.streams
    return GatewayBusy(
        f"it sends {streams.used} streams of {streams.most} (gateway.streams), of which one client has three "
        "quarters at most; end some of yours"
    )


def _opened(call: RestCall, name: str) -> StoreTail:
    start = call.of("from", str)
    if start not in (EARLIEST, LATEST):
        raise InvalidInput(f"the parameter from must be {EARLIEST} or {LATEST}")
    opened = StoreTail(call.store, name, start, partition=call.get("partition", int))
    if last := call.get("last-event-id", str):
        opened.go_to(opened.places | places_of(last))
    return opened


def places_of(text: str) -> dict[int, int]:
    """Return the positions in an event's id. Raises InvalidInput."""
    places = {}
    for each in text.split(","):
        number, colon, offset = each.partition(":")
        if not (colon and number.isdecimal() and offset.isdecimal() and len(offset) < 20 and len(number) < 6):
            raise InvalidInput("Last-Event-ID is not one that this stream has sent")
        places[int(number)] = int(offset)
    return places


async def _events(call: RestCall, name: str, opened: StoreTail) -> AsyncGenerator[bytes, None]:
    only, quiet = call.get("partition", int), 0.0
    sent, holder = _of(opened, only), holder_of(call.principal)
    if not call.door.streams.take(holder):  # others have begun since this one was admitted
        yield _event("error", bytes(problem_of(_full(call)).body))
        return
    try:
        yield _place(sent)
        while True:
            call.allow_still(AccessRight.READ, topic(name))
            records: Iterator[Record] = iter(opened.records())
            while found := await call.door.in_thread(lambda: _some(call, name, records)):  # noqa: B023
                for each in found:
                    call.allow_still(AccessRight.READ, topic(name))  # a slow reader takes its time
                    yield _event("record", encoded(record_shown(each)))
                quiet = 0.0
                await asyncio.sleep(call.charge(name, found))
            if _of(opened, only) != sent:
                sent = _of(opened, only)
                yield _place(sent)
            if quiet >= _QUIET_SECONDS:
                quiet = 0.0
                yield b":\n\n"
            await asyncio.sleep(_LOOK_SECONDS)
            quiet += _LOOK_SECONDS
    except Error as exc:
        yield _event("error", bytes(problem_of(exc).body))
    finally:
        call.door.streams.give_back(holder)


def _some(call: RestCall, name: str, records: Iterator[Record]) -> list[Record]:
    since_ms = call.door.clock.now_ms()
    found = list(some(records, _AT_ONCE, _ABOUT_BYTES))
    tell_read(name, found, since_ms)
    return found


def _of(opened: StoreTail, only: int | None) -> dict[int, int]:
    return {number: offset for number, offset in opened.places.items() if only in (None, number)}


def _event(kind: str, data: bytes) -> bytes:
    # A value is sent as it was published: between its parts JSON may have line ends, in strings never.
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), data.replace(b"\r", b" ").replace(b"\n", b" "))


def _place(places: dict[int, int]) -> bytes:
    text = ",".join(f"{number}:{offset}" for number, offset in sorted(places.items()))
    return b"event: place\nid: %s\ndata:\n\n" % text.encode()
