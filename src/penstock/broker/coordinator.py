"""The coordinator: the members of each group, and its rebalances.

All of it runs in the loop's thread; only the writes run in a thread of the pool. A generation is durable
before its members learn their assignments, so after a restart they go on without a rebalance.
"""

import asyncio
import logging
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import cast

from penstock.access import resource
from penstock.access.resource import AccessRight
from penstock.errors import Error, GroupKindDiffers
from penstock.model.limits import NAME_CHARACTERS
from penstock.wire.kafka.apis.groups import HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, SYNC_GROUP
from penstock.wire.kafka.error_numbers import ErrorNumber as E
from penstock.wire.kafka.layout import Message

from .call import ClientCall, Refused, Reply, RequestHandler
from .core import BrokerCore
from .group import MEMBER_BYTES, ClientGroupStore, ConsumerGroup, GroupMember, GroupState, Hold, generation_row

logger = logging.getLogger("penstock.groups")

_MOST_PROTOCOLS, _MOST_ASSIGNMENTS = 100, 20_000  # more than any group has, and few enough to be worked at once
_FIRST_WITH_PROMISED_IDS, _FIRST_WITH_SKIP, _FIRST_WITH_MANY_LEAVING = 4, 9, 3
_FIRST_WITHOUT_PROTOCOL = 7  # its refusals may leave the protocol out
_LONGEST_PROMISED = 1000  # member ids of a group that were given out and not used yet
_MOST_IDLE, _IDLE_SECONDS = 1000, 10.0  # of groups without members in memory: most, and for how long
_WEIGH_SECONDS = 1.0


@dataclass(slots=True)
class HeldGroup:
    """A group that is coordinated here."""

    hold: Hold
    group: ConsumerGroup
    used_at: float


class Coordinator:
    """Answers requests of group members. Lives in the loop's thread."""

    def __init__(self, broker: BrokerCore) -> None:
        self._broker = broker
        self.store = ClientGroupStore(broker.store, broker.clock, broker.cluster.member.id)
        self.held: dict[str, HeldGroup] = {}
        self._loading: dict[str, asyncio.Future[HeldGroup]] = {}
        self._bytes, self._next_weighing = 0, 0.0
        broker.ticks.append(self.tick)
        self.handlers: dict[int, RequestHandler] = {
            JOIN_GROUP.key: self.join,
            SYNC_GROUP.key: self.sync,
            HEARTBEAT.key: self.heartbeat,
            LEAVE_GROUP.key: self.leave,
        }

    # -- the groups of this coordinator

    async def find_known(self, call: ClientCall, name: str, otherwise: E = E.UNKNOWN_MEMBER_ID) -> HeldGroup:
        """Return a group that exists already; it is never created here. Raises Refused."""
        self.check(call, name, AccessRight.READ)
        if not await self.is_known(name):
            raise Refused(otherwise)
        return await self._found(name)

    def check(self, call: ClientCall, name: str, action: AccessRight) -> None:
        """Raise Refused unless a group is coordinated here, and the caller has the right.

        It comes before any query: a hidden group and a missing one take the same time.
        """
        if not 0 < len(name) <= NAME_CHARACTERS:
            raise Refused(E.INVALID_GROUP_ID)
        if not call.may(action, resource.group(name)):
            raise Refused(E.GROUP_AUTHORIZATION_FAILED)
        if self._broker.is_stopping or not self._broker.cluster.is_mine(name):
            raise Refused(E.NOT_COORDINATOR)

    async def find(self, call: ClientCall, name: str, action: AccessRight = AccessRight.READ) -> HeldGroup:
        """Return a group, loaded if necessary. Raises Refused."""
        self.check(call, name, action)
        return await self._found(name)

    async def _found(self, name: str) -> HeldGroup:
        held = self.held.get(name)
        if held is None:
            held = await self._load(name)
            if self._broker.is_stopping:  # meanwhile; its waiters would never be woken
                raise Refused(E.NOT_COORDINATOR)
        held.used_at = self._now()
        return held

    async def is_known(self, name: str) -> bool:
        """Return whether a group exists. Raises Refused."""
        try:
            return name in self.held or await self._broker.run(partial(self.store.is_known, name))
        except Error as exc:
            raise Refused(E.COORDINATOR_NOT_AVAILABLE) from exc

    async def _load(self, name: str) -> HeldGroup:
        if name not in self._loading:
            self._loading[name] = asyncio.ensure_future(self._loaded(name))
        try:
            return await asyncio.shield(self._loading[name])
        except GroupKindDiffers as exc:
            logger.warning("%s", exc, extra={"group": name})
            raise Refused(E.INVALID_GROUP_ID) from exc
        except Error as exc:
            logger.warning("group %s cannot be read: %s", name, exc, extra={"group": name})
            raise Refused(E.COORDINATOR_NOT_AVAILABLE) from exc

    async def _loaded(self, name: str) -> HeldGroup:
        try:
            hold, group = await self._broker.run(lambda: self.store.take(name))
            for each in group.members.values():
                self._heard(each)
            self.held[name] = held = HeldGroup(hold, group, self._now())
            return held
        finally:
            self._loading.pop(name, None)

    def drop(self, held: HeldGroup) -> None:
        """Stop coordinating a group: its waiting members are told to find the coordinator."""
        if self.held.get(held.group.name) is held:
            del self.held[held.group.name]
        for each in held.group.members.values():
            _refuse(each, E.NOT_COORDINATOR)

    # -- joining

    async def join(self, call: ClientCall) -> Reply:
        """Add a member, and answer when its generation is formed."""
        try:
            return await self._join(call)
        except Refused as exc:
            nameless = {"protocol_name": None} if call.version >= _FIRST_WITHOUT_PROTOCOL else {}
            return {"error_code": exc.number, "member_id": call.body["member_id"], **nameless}

    async def _join(self, call: ClientCall) -> Message:
        body, settings = call.body, self._broker.settings
        session = timedelta(milliseconds=body["session_timeout_ms"])
        if not settings.session_shortest <= session <= settings.session_longest:
            raise Refused(E.INVALID_SESSION_TIMEOUT)
        id, instance = body["member_id"], body["group_instance_id"]
        if len(instance or "") > NAME_CHARACTERS:
            raise Refused(E.INVALID_REQUEST)
        if len(body["protocols"]) > _MOST_PROTOCOLS:
            raise Refused(E.INCONSISTENT_GROUP_PROTOCOL)
        names = [each["name"] for each in body["protocols"]]
        has_protocol = bool(names and body["protocol_type"])
        # A group is created for its first member, but not for one that is refused anyway: names are free.
        if id or not has_protocol:
            otherwise = E.UNKNOWN_MEMBER_ID if id else E.INCONSISTENT_GROUP_PROTOCOL
            held = await self.find_known(call, body["group_id"], otherwise)
        else:
            held = await self.find(call, body["group_id"])
        group = held.group
        if not has_protocol or not group.supports(body["protocol_type"], names):
            raise Refused(E.INCONSISTENT_GROUP_PROTOCOL)
        size = sum(len(each["name"]) + len(each["metadata"] or b"") for each in body["protocols"])
        self._weigh_in(group, MEMBER_BYTES + 3 * len(call.client_id) + size)
        if instance is not None and instance in group.instances:
            known = group.members[group.instances[instance]]
            if not id:
                return await self._restarted(call, held, known)
            if id != known.id:
                raise Refused(E.FENCED_INSTANCE_ID)
        if id in group.members:
            return await self._again(call, held, group.members[id])
        if not id and instance is None and call.version >= _FIRST_WITH_PROMISED_IDS:
            return self._promise(call, group)
        if id and id not in group.promised:
            raise Refused(E.UNKNOWN_MEMBER_ID)
        return await self._newcomer(call, held, id or group.new_member_id(call.client_id, instance))

    def _weigh_in(self, group: ConsumerGroup, size: int) -> None:
        """Count memory that a member is about to take; `tick` counts again. Raises Refused."""
        if self._bytes + size > self._broker.settings.groups_bytes:
            words = (
                f"a member is refused: it needs {size} bytes, and members of groups hold {self._bytes} of "
                f"{self._broker.settings.groups_bytes} (broker.groups_bytes); stop members, or raise the setting"
            )
            logger.warning("group %s: %s", group.name, words, extra={"group": group.name})
            raise Refused(E.GROUP_MAX_SIZE_REACHED)
        self._bytes += size

    def _promise(self, call: ClientCall, group: ConsumerGroup) -> Message:
        """Give out an id to join with next, so that a lost answer leaves no dead member behind."""
        if len(group.promised) >= _LONGEST_PROMISED:
            raise Refused(E.COORDINATOR_NOT_AVAILABLE)
        id = group.new_member_id(call.client_id, None)
        group.promised[id] = self._now() + call.body["session_timeout_ms"] / 1000
        return {"error_code": E.MEMBER_ID_REQUIRED, "member_id": id}

    async def _newcomer(self, call: ClientCall, held: HeldGroup, id: str) -> Message:
        group, body = held.group, call.body
        member = GroupMember(id, body["group_instance_id"], call.client_id, call.principal.address, 0, 0, [])
        _update(member, body)
        if not group.members:
            group.protocol_type = body["protocol_type"]
        group.add(member)
        self._heard(member)
        return await self._rejoin(held, member)

    async def _again(self, call: ClientCall, held: HeldGroup, member: GroupMember) -> Message:
        """Answer a member that joins again: at once if nothing changes by it."""
        group = held.group
        same = member.protocols == _protocols(call.body)
        _update(member, call.body)
        self._heard(member)
        if same and (
            group.state is GroupState.COMPLETING or (group.state is GroupState.STABLE and group.leader != member.id)
        ):
            return _joined(group, member)
        return await self._rejoin(held, member)

    async def _restarted(self, call: ClientCall, held: HeldGroup, known: GroupMember) -> Message:
        """Let a restarted static member take its old place: its assignment stays the same."""
        group, former = held.group, known.id
        _refuse(known, E.FENCED_INSTANCE_ID)
        same = known.metadata(group.protocol) == dict(_protocols(call.body)).get(group.protocol)
        member = group.replace(known, group.new_member_id(call.client_id, known.instance_id))
        _update(member, call.body)
        self._heard(member)
        if not same or group.state is not GroupState.STABLE:
            return await self._rejoin(held, member)
        if not await self._broker.run(partial(self.store.write, held.hold, generation_row(group))):
            self.drop(held)
            raise Refused(E.NOT_COORDINATOR)
        answer = _joined(group, member)
        if group.leader == member.id:
            if call.version >= _FIRST_WITH_SKIP:
                return answer | {"skip_assignment": True}
            return answer | {"leader": former, "members": ()}
        return answer

    async def _rejoin(self, held: HeldGroup, member: GroupMember) -> Message:
        group = held.group
        if group.state is not GroupState.PREPARING:
            self._prepare(group)
        _answer_join(member, {"error_code": E.UNKNOWN_MEMBER_ID})
        member.joining = waiting = self._broker.loop.create_future()
        self._form_if_complete(held)
        return cast(Message, await waiting)

    def _prepare(self, group: ConsumerGroup) -> None:
        now, delay = self._now(), self._broker.settings.join_delay.total_seconds()
        is_first = group.state is GroupState.EMPTY
        group.state = GroupState.PREPARING
        group.join_from = now + delay if is_first else now
        longest = max((each.rebalance_ms for each in group.members.values()), default=0)
        group.join_deadline = now + max(longest / 1000, delay)
        for each in group.members.values():
            _answer_sync(each, {"error_code": E.REBALANCE_IN_PROGRESS})

    def _form_if_complete(self, held: HeldGroup) -> None:
        group, now = held.group, self._now()
        if group.state is not GroupState.PREPARING or now < group.join_from:
            return
        missing = group.missing()
        if (missing or group.promised) and now < group.join_deadline:
            return
        for each in missing:
            if each.instance_id is None:
                group.remove(each)
        group.promised.clear()
        self._form(held)

    def _form(self, held: HeldGroup) -> None:
        group = held.group
        group.form()
        if not group.members:
            held.used_at = self._now()
            self._broker.spawn(None, self._write(held))
            return
        for each in group.members.values():
            self._heard(each)
            _answer_join(each, _joined(group, each))
        numbers = group.generation, len(group.members)
        logger.info("group %s: generation %d, %d members", group.name, *numbers, extra={"group": group.name})

    async def _write(self, held: HeldGroup) -> bool | None:
        """Store the generation of a group; return whether it is still coordinated here, or None if that fails."""
        name = held.group.name
        try:
            is_ours = await self._broker.run(partial(self.store.write, held.hold, generation_row(held.group)))
        except Error as exc:
            logger.warning("group %s could not be written: %s", name, exc, extra={"group": name})
            return None
        if not is_ours:
            self.drop(held)
        return is_ours

    # -- assignments

    async def sync(self, call: ClientCall) -> Reply:
        """Return a member's assignment; the leader sends those of all."""
        body = call.body
        held = await self.find_known(call, body["group_id"])
        group = held.group
        member = checked(group, body["member_id"], body["group_instance_id"], body["generation_id"])
        for name, own in (("protocol_type", group.protocol_type), ("protocol_name", group.protocol)):
            if body[name] is not None and body[name] != own:
                raise Refused(E.INCONSISTENT_GROUP_PROTOCOL)
        self._heard(member)
        if group.state is GroupState.STABLE:
            return _synced(group, member)
        if group.state is not GroupState.COMPLETING:
            raise Refused(E.REBALANCE_IN_PROGRESS)
        if len(body["assignments"]) > _MOST_ASSIGNMENTS:
            raise Refused(E.INVALID_REQUEST)
        self._weigh_in(group, sum(len(each["assignment"]) for each in body["assignments"]))
        _answer_sync(member, {"error_code": E.UNKNOWN_MEMBER_ID})
        member.syncing = waiting = self._broker.loop.create_future()
        if member.id == group.leader:
            await self._share_out(held, body["assignments"])
        return cast(Message, await waiting)

    async def _share_out(self, held: HeldGroup, assignments: list[Message]) -> None:
        group, generation = held.group, held.group.generation
        given = {each["member_id"]: each["assignment"] for each in assignments}
        for each in group.members.values():
            each.assignment = given.get(each.id, b"")
        is_ours = await self._write(held)
        if is_ours is None:
            for each in group.members.values():
                _answer_sync(each, {"error_code": E.COORDINATOR_NOT_AVAILABLE})
            if group.state is GroupState.COMPLETING:
                self._prepare(group)
        elif is_ours and group.state is GroupState.COMPLETING and group.generation == generation:
            group.state = GroupState.STABLE
            for each in group.members.values():
                self._heard(each)
                _answer_sync(each, _synced(group, each))

    # -- heartbeats and departures

    async def heartbeat(self, call: ClientCall) -> Reply:
        """Record a heartbeat, and tell the member of a rebalance."""
        body = call.body
        held = self.held.get(body["group_id"])
        if held is None:
            held = await self.find_known(call, body["group_id"])
        else:
            self.check(call, body["group_id"], AccessRight.READ)
        group = held.group
        self._heard(checked(group, body["member_id"], body["group_instance_id"], body["generation_id"]))
        if group.state is GroupState.PREPARING:
            raise Refused(E.REBALANCE_IN_PROGRESS)
        return {"error_code": 0}

    async def leave(self, call: ClientCall) -> Reply:
        """Remove members."""
        body = call.body
        many = call.version >= _FIRST_WITH_MANY_LEAVING
        leaving = body["members"] if many else [{"member_id": body["member_id"], "group_instance_id": None}]
        try:
            held = await self.find_known(call, body["group_id"])
            left = [
                each | {"error_code": self._leave(held, each["member_id"], each["group_instance_id"])}
                async for each in call.each(leaving)
            ]
        except Refused as exc:
            if exc.number is not E.UNKNOWN_MEMBER_ID:
                raise
            left = [each | {"error_code": exc.number} async for each in call.each(leaving)]
        return {"members": left} if many else {"error_code": left[0]["error_code"]}

    def _leave(self, held: HeldGroup, id: str, instance: str | None) -> E:
        group = held.group
        if instance is not None:
            known = group.instances.get(instance, "")
            if known and id not in ("", known):
                return E.FENCED_INSTANCE_ID
            id = known
        if id in group.promised:
            del group.promised[id]
            self._form_if_complete(held)
            return E.NONE
        if id not in group.members:
            return E.UNKNOWN_MEMBER_ID
        self._remove(held, group.members[id])
        return E.NONE

    def _remove(self, held: HeldGroup, member: GroupMember) -> None:
        group = held.group
        group.remove(member)
        _refuse(member, E.UNKNOWN_MEMBER_ID)
        if not group.members:
            self._form(held)
        elif group.state in (GroupState.STABLE, GroupState.COMPLETING):
            self._prepare(group)
        else:
            self._form_if_complete(held)

    # -- time-outs

    def tick(self) -> None:
        """Remove silent members, and complete rebalances that have waited long enough."""
        now = self._now()
        for held in tuple(self.held.values()):
            group = held.group
            if self._broker.is_stopping or not self._broker.cluster.is_mine(group.name):
                self.drop(held)
                continue
            group.promised = {id: until for id, until in group.promised.items() if until >= now}
            for each in tuple(group.members.values()):
                if each.joining is None and each.syncing is None and each.deadline < now:
                    logger.info("group %s: member %s is silent", group.name, each.id, extra={"group": group.name})
                    self._remove(held, each)
            self._form_if_complete(held)
        if now >= self._next_weighing:
            self._next_weighing = now + _WEIGH_SECONDS
            self._bytes = sum(each.group.memory_bytes for each in self.held.values())
            self._drop_idle(now)

    def _drop_idle(self, now: float) -> None:
        """Bound the number and age of groups without members in memory: the store has them."""
        idle = sorted((each for each in self.held.values() if each.group.is_idle), key=lambda h: h.used_at)
        for number, held in enumerate(idle):
            if number < len(idle) - _MOST_IDLE or held.used_at < now - _IDLE_SECONDS:
                self.drop(held)

    def _heard(self, member: GroupMember) -> None:
        member.deadline = self._now() + member.session_ms / 1000

    def _now(self) -> float:
        return self._broker.clock.monotonic()


def checked(group: ConsumerGroup, id: str, instance: str | None, generation: int) -> GroupMember:
    """Return a member of the present generation. Raises Refused."""
    if instance is not None and (known := group.instances.get(instance)) != id:
        raise Refused(E.UNKNOWN_MEMBER_ID if known is None else E.FENCED_INSTANCE_ID)
    member = group.members.get(id)
    if member is None or group.state is GroupState.EMPTY:
        raise Refused(E.UNKNOWN_MEMBER_ID)
    if generation != group.generation:
        raise Refused(E.ILLEGAL_GENERATION)
    return member


def _refuse(member: GroupMember, number: E) -> None:
    _answer_join(member, {"error_code": number})
    _answer_sync(member, {"error_code": number})


def _protocols(body: Message) -> list[tuple[str, bytes]]:
    return [(each["name"], each["metadata"] or b"") for each in body["protocols"]]


def _update(member: GroupMember, body: Message) -> None:
    member.protocols, member.session_ms = _protocols(body), body["session_timeout_ms"]
    member.rebalance_ms = body["rebalance_timeout_ms"] if body["rebalance_timeout_ms"] >= 0 else member.session_ms


def _joined(group: ConsumerGroup, member: GroupMember) -> Message:
    members = group.members.values() if group.leader == member.id else ()
    return {
        "error_code": 0,
        "generation_id": group.generation,
        "protocol_type": group.protocol_type,
        "protocol_name": group.protocol,
        "leader": group.leader,
        "member_id": member.id,
        "members": [
            {"member_id": each.id, "group_instance_id": each.instance_id, "metadata": each.metadata(group.protocol)}
            for each in members
        ],
    }


def _synced(group: ConsumerGroup, member: GroupMember) -> Message:
    named = {"protocol_type": group.protocol_type, "protocol_name": group.protocol}
    return {"error_code": 0, **named, "assignment": member.assignment}


def _answer_join(member: GroupMember, answer: Message) -> None:
    waiting, member.joining = member.joining, None
    if waiting is not None and not waiting.done():
        waiting.set_result({"member_id": member.id} | answer)


def _answer_sync(member: GroupMember, answer: Message) -> None:
    waiting, member.syncing = member.syncing, None
    if waiting is not None and not waiting.done():
        waiting.set_result(answer)
