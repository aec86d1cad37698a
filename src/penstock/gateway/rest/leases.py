"""Consuming as a group: lease records, then answer them. Unanswered records come again."""

from typing import Annotated

import msgspec

from penstock.access.resource import AccessRight, group, topic
from penstock.errors import Error
from penstock.model.outcome import Outcome

from ..lease import DONE, NO_REASON, HeldRecord, Lease, LeasedGroup, Nacked, held_within, refusal
from .answers import RecordShown
from .call import RestCall
from .operations import CONVERT_TO, GROUP, TOPIC, Operations, Parameter

Seconds = Annotated[float, msgspec.Meta(ge=0, le=86_400)]
Offset = Annotated[int, msgspec.Meta(ge=0)]
_PATH = "/v1/groups/{group}/topics/{topic}/leases"
_LEASE = Parameter("lease", place="path", help="A lease that was given.", longest=64, example="0" * 32)
_ONE, _OF_ONE = f"{_PATH}/{{lease}}", (GROUP, TOPIC, _LEASE)
LEASES = Operations("consuming")
_MOST = 1000  # records of a lease, hence ranges to name them


class LeaseWanted(msgspec.Struct, forbid_unknown_fields=True):
    """The room that a client has: records (its credits) and bytes, and the time of the lease.

    `wait_seconds`: how long it waits for the first record.
    """

    max_records: Annotated[int, msgspec.Meta(ge=1, le=_MOST)] = 100
    max_bytes: Annotated[int, msgspec.Meta(ge=1)] = 1 << 20
    wait_seconds: Annotated[float, msgspec.Meta(ge=0, le=60)] = 0
    lease_seconds: Annotated[float, msgspec.Meta(gt=0, le=86_400)] | None = None


class Leased(msgspec.Struct):
    """The records of a lease. `lease` is None if there are none now."""

    lease: str | None
    lease_seconds: float
    records: list[RecordShown]


class PlaceRange(msgspec.Struct, forbid_unknown_fields=True):
    """Offsets of a partition, `first` to `last`, both included."""

    partition: Annotated[int, msgspec.Meta(ge=0)]
    first: Offset
    last: Offset


PlaceRanges = Annotated[list[PlaceRange], msgspec.Meta(max_length=_MOST)]


class Acknowledged(msgspec.Struct, forbid_unknown_fields=True):
    """Records that are done; without ranges the whole lease."""

    ranges: PlaceRanges | None = None


class NotHandled(msgspec.Struct, forbid_unknown_fields=True):
    """Records that could not be handled; without ranges all unanswered ones of the lease.

    They wait with their keys by the retry policy, or for `after_seconds`. `dead`: they become dead letters.
    """

    ranges: PlaceRanges | None = None
    reason: Annotated[str, msgspec.Meta(max_length=1000)] = NO_REASON
    after_seconds: Seconds | None = None
    dead: bool = False


class Extended(msgspec.Struct, forbid_unknown_fields=True):
    """The time that a lease is to last from now."""

    lease_seconds: Annotated[float, msgspec.Meta(gt=0, le=86_400)]


class LeaseState(msgspec.Struct):
    """The state of a lease: how many records this call settled, how many are open."""

    settled: int
    open: int
    lease_seconds: float


@LEASES.add("POST", _PATH, GROUP, TOPIC, CONVERT_TO, body=LeaseWanted, needs_body=False)
async def lease_records(call: RestCall) -> Leased:
    """Take records for a group, to be answered for before the lease lapses."""
    name, of = call.of("group", str), call.of("topic", str)
    call.allow(AccessRight.READ, group(name), topic(of))
    call.admit(of)
    wanted = await call.json_read(LeaseWanted)
    convert_to = call.conversion  # refused before anything is leased
    served = await call.door.groups.get(name, of, principal=call.principal)
    seconds = _seconds(call, wanted.lease_seconds)
    call.room(wanted.max_bytes)  # refused before it waits
    await served.ready(wanted.wait_seconds)
    most = call.room(wanted.max_bytes)  # again: calls that waited may have taken the room
    found = served.take(wanted.max_records, max_bytes=most, seconds=seconds)
    call.count(sum(len(each.data or b"") for each in found.records))
    try:
        call.allow_still(AccessRight.READ, group(name), topic(of))  # it may have waited for a minute
    except Error:
        _give_back(served, found)
        raise
    if found.held and await call.request.is_disconnected():  # else they wait until the lease lapses
        _give_back(served, found)
        return Leased(None, seconds, [])
    call.charge(of, found.records)

    def shown() -> list[RecordShown]:
        return [call.shown(each, delivered=True) for each in found.records]

    records = await call.door.in_thread(shown) if convert_to else shown()  # conversion may ask the store
    return Leased(found.id if found.held else None, seconds, records)


def _give_back(served: LeasedGroup, found: Lease) -> None:
    served.hand_back(found.unanswered)
    served.end(found)


@LEASES.add("POST", f"{_ONE}/ack", *_OF_ONE, body=Acknowledged, needs_body=False)
async def ack_records(call: RestCall) -> LeaseState:
    """Settle records as done."""
    wanted = await call.json_read(Acknowledged)
    served, found = await _found(call)
    return await _settled(served, found, _held(found, wanted.ranges), DONE)


@LEASES.add("POST", f"{_ONE}/nack", *_OF_ONE, body=NotHandled, needs_body=False)
async def nack_records(call: RestCall) -> LeaseState:
    """Settle records as failed: they wait with their keys, or are given up."""
    wanted = await call.json_read(NotHandled)
    served, found = await _found(call)
    held = found.unanswered if wanted.ranges is None else _held(found, wanted.ranges)
    return await _settled(served, found, held, refusal(wanted.reason, wanted.after_seconds, dead=wanted.dead))


@LEASES.add("POST", f"{_ONE}/extend", *_OF_ONE, body=Extended, needs_body=False)
async def extend_lease(call: RestCall) -> LeaseState:
    """Extend a lease."""
    wanted = await call.json_read(Extended)
    served, found = await _found(call)
    served.extend(found.id, _seconds(call, wanted.lease_seconds))
    return LeaseState(0, len(found.unanswered), found.seconds)


async def _found(call: RestCall) -> tuple[LeasedGroup, Lease]:
    name, of, id = call.of("group", str), call.of("topic", str), call.of("lease", str)
    call.allow(AccessRight.READ, group(name), topic(of))
    served = await call.door.groups.serving(name, of, id)
    return served, served.find(id)


async def _settled(served: LeasedGroup, found: Lease, held: list[HeldRecord], outcome: Outcome | Nacked) -> LeaseState:
    count = await served.answer(held, outcome)
    served.linger(found)
    return LeaseState(count, len(found.unanswered), found.seconds)


def _held(found: Lease, ranges: list[PlaceRange] | None) -> list[HeldRecord]:
    if ranges is None:
        return list(found.held.values())
    places = [(each.partition, each.first, each.last) for each in ranges]
    return held_within(found.held, places, "the lease holds nothing at {}/{}-{}: name what it has")


def _seconds(call: RestCall, asked: float | None) -> float:
    settings = call.door.settings
    return min(settings.lease.total_seconds() if asked is None else asked, settings.lease_longest.total_seconds())
