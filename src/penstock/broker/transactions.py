"""Producers that ask for an id, and transactions: begun, filled, ended, aborted when they are late."""

import logging
from functools import partial

from penstock.access import resource
from penstock.access.resource import AccessRight, ResourceKind
from penstock.database.database import Transaction
from penstock.delivery.client_cursors import hold_places
from penstock.errors import Error
from penstock.log.batches import LogPlace
from penstock.model.limits import NAME_CHARACTERS
from penstock.wire.kafka.apis import transactions as apis
from penstock.wire.kafka.apis.records import DESCRIBE_PRODUCERS
from penstock.wire.kafka.error_numbers import ErrorNumber as E
from penstock.wire.kafka.layout import Message

from .call import ClientCall, Refused, Reply, RequestHandler
from .coordinator import Coordinator, checked
from .core import BrokerCore
from .error_codes import number_of
from .group import GroupState
from .group_offsets import GroupOffsets, answered
from .transaction_store import KAFKA_NAMES, ProducerId, TransactionStore

logger = logging.getLogger("penstock.transactions")

_LOOK_SECONDS, _EXPIRE_SECONDS = 1.0, 600.0


class TransactionHandler:
    """Answers requests of producers. Lives in the loop's thread."""

    def __init__(self, broker: BrokerCore, groups: Coordinator, offsets: GroupOffsets) -> None:
        self._broker, self._groups, self._offsets = broker, groups, offsets
        self._store = TransactionStore(broker.store, broker.batches, broker.clock)
        self._looking = False
        self._next_look = self._next_expiry = 0.0
        broker.ticks.append(self.tick)
        self.handlers: dict[int, RequestHandler] = {
            apis.INIT_PRODUCER_ID.key: self.init_producer_id,
            apis.ADD_PARTITIONS_TO_TXN.key: self.add_partitions,
            apis.ADD_OFFSETS_TO_TXN.key: self.add_offsets,
            apis.TXN_OFFSET_COMMIT.key: self.commit_offsets,
            apis.END_TXN.key: self.end,
            apis.LIST_TRANSACTIONS.key: self.list,
            DESCRIBE_PRODUCERS.key: self.describe,
        }

    async def init_producer_id(self, call: ClientCall) -> Reply:
        """Give a producer its id."""
        body = call.body
        name, timeout_ms = body["transactional_id"], body["transaction_timeout_ms"]
        nobody = {"producer_id": -1, "producer_epoch": -1}
        try:
            if name is not None:
                self._check(call, name)
                longest = self._broker.settings.transaction_longest.total_seconds() * 1000
                if not 0 < timeout_ms <= longest:
                    raise Refused(E.INVALID_TRANSACTION_TIMEOUT)
            elif not call.may_some(AccessRight.WRITE, ResourceKind.TOPIC):
                raise Refused(E.CLUSTER_AUTHORIZATION_FAILED)
            known = _producer(body) if body["producer_id"] >= 0 else None
            given = await self._broker.run(partial(self._store.begin, name, 0 if name is None else timeout_ms, known))
        except Refused as exc:
            return {"error_code": number_of(exc, apis.INIT_PRODUCER_ID.key, call.version), **nobody}
        return {"producer_id": given.id, "producer_epoch": given.epoch}

    def _check(self, call: ClientCall, name: str) -> None:
        if not 0 < len(name) <= NAME_CHARACTERS or "\0" in name:
            raise Refused(E.INVALID_REQUEST)
        if not call.may(AccessRight.WRITE, resource.transaction(name)):
            raise Refused(E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if self._broker.is_stopping or not self._broker.cluster.is_mine(name):
            raise Refused(E.NOT_COORDINATOR)

    async def add_partitions(self, call: ClientCall) -> Reply:
        """Add partitions to a transaction."""
        body = call.body
        numbers: dict[tuple[str, int], E] = {}
        places = []
        async for each in call.each(body["v3_and_below_topics"]):
            name = each["name"]
            may = call.may(AccessRight.WRITE, resource.topic(name))
            async for partition in call.each(each["partitions"]):
                topic = self._broker.topics.having(name, partition)
                if not may:
                    numbers[name, partition] = E.TOPIC_AUTHORIZATION_FAILED
                elif topic is None:
                    numbers[name, partition] = E.UNKNOWN_TOPIC_OR_PARTITION
                else:
                    places.append(LogPlace(topic.id, partition))
        rest = E.OPERATION_NOT_ATTEMPTED if numbers else E.NONE
        try:
            name = body["v3_and_below_transactional_id"]
            self._check(call, name)
            if not numbers:
                producer = _producer(body, "v3_and_below_")
                await self._broker.run(partial(self._store.add_partitions, name, producer, places))
        except (Error, Refused) as exc:
            rest, numbers = number_of(exc, apis.ADD_PARTITIONS_TO_TXN.key, call.version), {}
        results = []
        async for each in call.each(body["v3_and_below_topics"]):
            name = each["name"]
            partitions = [
                {"partition_index": number, "partition_error_code": numbers.get((name, number), rest)}
                async for number in call.each(each["partitions"])
            ]
            results.append({"name": name, "results_by_partition": partitions})
        return {"results_by_topic_v3_and_below": results}

    async def add_offsets(self, call: ClientCall) -> Reply:
        """Add the offsets of a group to a transaction."""
        body, name = call.body, call.body["transactional_id"]
        self._check(call, name)
        if not call.may(AccessRight.READ, resource.group(body["group_id"])):
            raise Refused(E.GROUP_AUTHORIZATION_FAILED)
        await self._broker.run(partial(self._store.add_partitions, name, _producer(body), ()))
        return {"error_code": 0}

    async def commit_offsets(self, call: ClientCall) -> Reply:
        """Hold a group's offsets back until the transaction commits."""
        body = call.body
        commits, numbers = await self._offsets.sort_out(call)
        try:
            transaction = body["transactional_id"]
            if not call.may(AccessRight.WRITE, resource.transaction(transaction)):
                raise Refused(E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            producer = _producer(body)
            is_member = body["generation_id"] >= 0 or body["member_id"]
            if is_member or not commits:
                held = await self._groups.find_known(call, body["group_id"])
            else:
                may = bool(body["group_id"]) and call.may(AccessRight.READ, resource.group(body["group_id"]))
                if may and not await self._groups.is_known(body["group_id"]):
                    # The group would be created: only for a producer that may commit.
                    check = partial(self._store.check_open, transactional_id=transaction, producer=producer)
                    await self._broker.run(partial(self._broker.store.database.run, check))
                held = await self._groups.find(call, body["group_id"])
            group, hold = held.group, held.hold
            if is_member:
                checked(group, body["member_id"], body["group_instance_id"], body["generation_id"])
                if group.state is GroupState.COMPLETING:
                    raise Refused(E.REBALANCE_IN_PROGRESS)

            def change(tx: Transaction) -> bool:
                if not self._groups.store.holds(tx, hold):
                    return False
                self._store.check_open(tx, transaction, producer)
                hold_places(tx, producer.id, hold.group_id, commits)
                return True

            number = E.NONE
            if not await self._broker.run(lambda: self._broker.store.database.run(change)):
                self._groups.drop(held)
                number = E.NOT_COORDINATOR
        except Refused as exc:
            number = exc.number
        except Error:
            number = E.COORDINATOR_NOT_AVAILABLE
        return {"topics": await answered(call, numbers, number)}

    async def end(self, call: ClientCall) -> Reply:
        """Commit a transaction, or abort it."""
        body, name = call.body, call.body["transactional_id"]
        self._check(call, name)
        await self._broker.lock_waits.run(partial(self._store.end, name, _producer(body), committed=body["committed"]))
        return {"error_code": 0}

    def tick(self) -> None:
        """Look for overdue transactions from time to time."""
        now = self._broker.clock.monotonic()
        if not self._looking and now >= self._next_look and not self._broker.is_stopping:
            self._looking, self._next_look = True, now + _LOOK_SECONDS
            self._broker.spawn(None, self._look(now))

    async def _look(self, now: float) -> None:
        try:
            await self._broker.run(self._store.abort_late)
            if now >= self._next_expiry:
                self._next_expiry = now + _EXPIRE_SECONDS
                age_ms = int(self._broker.settings.producer_expires.total_seconds() * 1000)
                await self._broker.run(partial(self._store.expire, age_ms, list(self._broker.topics.by_id)))
        except Error as exc:
            logger.debug("late transactions were not looked for: %s", exc)
        finally:
            self._looking = False

    async def list(self, call: ClientCall) -> Reply:
        """Return the transactional ids that are coordinated here."""
        states, ids = set(call.body["state_filters"]), set(call.body["producer_id_filters"])
        longer_ms, known = call.body["duration_filter"], set(KAFKA_NAMES.values())
        found = []
        async for each in call.each(await self._broker.run(self._store.listed)):
            name = KAFKA_NAMES[each.state]
            if (
                self._broker.cluster.is_mine(each.transactional_id)
                and call.sees(resource.transaction(each.transactional_id))
                and (not states or name in states)
                and (not ids or each.producer_id in ids)
                and (longer_ms < 0 or each.open_ms > longer_ms)
            ):
                found.append(each._asdict() | {"transaction_state": name})
        return {"unknown_state_filters": sorted(states - known), "transaction_states": found}

    async def describe(self, call: ClientCall) -> Reply:
        """Return the producers that partitions know."""
        topics = []
        async for each in call.each(call.body["topics"]):
            partitions = [
                await self._described(call, each["name"], number)
                async for number in call.each(each["partition_indexes"])
            ]
            topics.append({"name": each["name"], "partitions": partitions})
        return {"topics": topics}

    async def _described(self, call: ClientCall, name: str, partition: int) -> Message:
        answer: Message = {"partition_index": partition}
        topic = self._broker.topics.having(name, partition)
        if not call.may(AccessRight.READ, resource.topic(name)):
            return answer | {"error_code": E.TOPIC_AUTHORIZATION_FAILED}
        if topic is None:
            return answer | {"error_code": E.UNKNOWN_TOPIC_OR_PARTITION}
        found = await self._broker.run(partial(self._broker.batches.producers, topic, partition))
        producers = [
            {
                "producer_id": each.producer_id,
                "producer_epoch": each.epoch,
                "last_sequence": each.last_sequence,
                "last_timestamp": each.last_ms,
                "coordinator_epoch": 0,
                "current_txn_start_offset": each.open_since,
            }
            for each in found
        ]
        return answer | {"active_producers": producers}


def _producer(body: Message, prefix: str = "") -> ProducerId:
    return ProducerId(body[f"{prefix}producer_id"], body[f"{prefix}producer_epoch"])
