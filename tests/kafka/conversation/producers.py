"""Producers that number their batches, and transactions: begun, filled, ended, fenced."""

from penstock.wire.kafka.apis.cluster import FIND_COORDINATOR
from penstock.wire.kafka.apis.groups import OFFSET_FETCH
from penstock.wire.kafka.apis.records import DESCRIBE_PRODUCERS, FETCH, LIST_OFFSETS, PRODUCE
from penstock.wire.kafka.apis.transactions import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    INIT_PRODUCER_ID,
    LIST_TRANSACTIONS,
    TXN_OFFSET_COMMIT,
)
from penstock.wire.kafka.layout import Message

from .bodies import LATEST, batch, coordinated, fetch, made, offsets, produce
from .talk import Talk

Producer = tuple[int, int]


def numbered(talk: Talk) -> None:
    made(talk, "numbered", 2)
    talk.quietly(INIT_PRODUCER_ID, 4, _begin(None))  # Apache Kafka has to fetch a block of ids first
    given = talk.ask("numbered/an id", INIT_PRODUCER_ID, 4, _begin(None))
    id, epoch = given["producer_id"], given["producer_epoch"]
    talk.ask("numbered/another id", INIT_PRODUCER_ID, 1, _begin(None))

    def ask(step: str, sequence: int, count: int = 2, at: int = epoch, of: int = id, partition: int = 0) -> None:
        records = batch(talk, *(f"{sequence + each}" for each in range(count)), producer=(of, at), sequence=sequence)
        talk.ask(f"numbered/{step}", PRODUCE, 9, produce("numbered", records, partition=partition))

    for sequence in (0, 2, 4, 6, 8, 10):
        ask(f"{sequence} and the next", sequence)
    ask("the last once more", 10)
    ask("the fifth but last once more", 2)
    ask("one that is forgotten once more", 0)
    ask("the last with one record more", 10, count=3)
    ask("a part of the last", 11, count=1)
    ask("one left out", 13)
    ask("going on after all that", 12)
    ask("a number below 0", -1)
    ask("another partition, not from 0", 5, partition=1)
    ask("another partition, from 0", 0, partition=1)
    ask("an unknown producer, from 0", 0, of=id + 4000)
    ask("an unknown producer, not from 0", 7, of=id + 5000)
    ask("a later epoch, not from 0", 3, at=epoch + 1)
    ask("a later epoch, from 0", 0, at=epoch + 1)
    ask("the epoch before", 14, at=epoch)
    asked = {"topics": [{"name": "numbered", "partition_indexes": [0, 9]}]}
    found = talk.ask("numbered/who is known", DESCRIBE_PRODUCERS, 0, asked)
    own = [each for each in found["topics"][0]["partitions"][0]["active_producers"] if each["producer_id"] == id]
    talk.answers["numbered/who is known"]["topics"][0]["partitions"][0]["active_producers"] = talk.told(own)
    talk.ask("numbered/a later epoch of no transaction", INIT_PRODUCER_ID, 4, _begin(None, (id, epoch + 1)))
    talk.ask("numbered/all of it", FETCH, 11, fetch("numbered", 0))


def _begin(name: str | None, known: Producer = (-1, -1), timeout_ms: int = 60_000) -> Message:
    return {
        "transactional_id": name,
        "transaction_timeout_ms": timeout_ms,
        "producer_id": known[0],
        "producer_epoch": known[1],
    }


def _add(name: str, producer: Producer, *topics: str, partitions: tuple[int, ...] = (0,)) -> Message:
    return {
        "v3_and_below_transactional_id": name,
        "v3_and_below_producer_id": producer[0],
        "v3_and_below_producer_epoch": producer[1],
        "v3_and_below_topics": [{"name": each, "partitions": list(partitions)} for each in topics],
    }


def _end(name: str, producer: Producer, committed: bool) -> Message:
    return {"transactional_id": name, "producer_id": producer[0], "producer_epoch": producer[1], "committed": committed}


def _of(message: Message) -> Producer:
    return message["producer_id"], message["producer_epoch"]


class _Story:
    """What one transactional id does, with its requests in short."""

    def __init__(self, talk: Talk, chapter: str, name: str, topic: str) -> None:
        self.talk, self.chapter, self.name, self.topic = talk, chapter, name, topic
        coordinated(talk, name, 1)
        self.producer = (-1, -1)

    def begin(self, step: str, version: int = 4, known: Producer = (-1, -1)) -> None:
        self.producer = _of(
            self.talk.ask(f"{self.chapter}/{step}", INIT_PRODUCER_ID, version, _begin(self.name, known))
        )

    def write(self, step: str, sequence: int, *values: str, at: Producer | None = None) -> None:
        producer = at or self.producer
        records = batch(self.talk, *values, producer=producer, sequence=sequence, transactional=True)
        asked = produce(self.topic, records, transaction=self.name)
        self.talk.ask(f"{self.chapter}/{step}", PRODUCE, 9, asked)

    def add(self, step: str, version: int = 3, at: Producer | None = None) -> None:
        asked = _add(self.name, at or self.producer, self.topic)
        self.talk.ask(f"{self.chapter}/{step}", ADD_PARTITIONS_TO_TXN, version, asked)

    def begins_anew(self) -> None:
        """Let the next transaction begin once the one before has ended, without a word."""
        self.talk.quietly(ADD_PARTITIONS_TO_TXN, 3, _add(self.name, self.producer, self.topic))

    def end(self, step: str, committed: bool, version: int = 3, at: Producer | None = None) -> None:
        asked = _end(self.name, at or self.producer, committed)
        self.talk.ask(f"{self.chapter}/{step}", END_TXN, version, asked)

    def settled(self) -> None:
        """Wait until what was ended is seen by those who read committed records only."""

        def is_so(_: Message) -> bool:
            ends = [
                self.talk.quietly(LIST_OFFSETS, 7, offsets(self.topic, LATEST, committed=committed))
                for committed in (False, True)
            ]
            return ends[0] == ends[1]

        self.talk.until(FIND_COORDINATOR, 2, {"key": self.name, "key_type": 1}, is_so)

    def show(self, step: str, offset: int = 0) -> None:
        """Write down what both kinds of readers see."""
        for committed in (False, True):
            kind = "committed" if committed else "all"
            self.talk.ask(f"{self.chapter}/{step}, {kind}", FETCH, 11, fetch(self.topic, offset, committed=committed))
            asked = offsets(self.topic, LATEST, committed=committed)
            self.talk.ask(f"{self.chapter}/{step}, the end of {kind}", LIST_OFFSETS, 7, asked)


def transactions(talk: Talk) -> None:
    story = _Story(talk, "transactions", "t1", made(talk, "t1"))
    story.begin("an id")
    talk.ask("transactions/no time", INIT_PRODUCER_ID, 4, _begin("t1", timeout_ms=0))
    talk.ask("transactions/too much time", INIT_PRODUCER_ID, 4, _begin("t1", timeout_ms=10**9))
    talk.ask("transactions/no name", INIT_PRODUCER_ID, 4, _begin(""))
    story.write("records before it has begun", 0, "early")
    story.end("an end before it has begun", True)
    talk.ask("transactions/an unknown topic", ADD_PARTITIONS_TO_TXN, 3, _add("t1", story.producer, "nowhere", "t1"))
    story.add("its partition")
    story.add("its partition again")
    story.write("records", 0, "a", "b")
    story.write("the same records", 0, "a", "b")
    story.write("records out of sequence", 7, "z")
    story.show("open")
    talk.ask("transactions/listed while open", LIST_TRANSACTIONS, 0, {"state_filters": ["Ongoing"]})
    talk.ask("transactions/by a state that is none", LIST_TRANSACTIONS, 0, {"state_filters": ["Odd"]})
    story.end("a commit", True)
    story.settled()
    story.end("the commit again", True)
    story.end("an abort after it", False)
    story.show("committed")
    story.begins_anew()
    story.write("more records", 2, "c")
    story.end("an abort", False, version=1)
    story.settled()
    story.end("the abort again", False)
    story.show("aborted", 2)
    story.begins_anew()
    story.write("records after it", 3, "d")
    story.end("a second commit", True)
    story.settled()
    story.show("at last")
    talk.ask("transactions/another producer", END_TXN, 3, _end("t1", (story.producer[0] + 999, 0), True))
    coordinated(talk, "nobody", 1)
    talk.ask("transactions/an unknown id", END_TXN, 3, _end("nobody", (1, 0), True))
    talk.ask("transactions/an unknown id adds", ADD_PARTITIONS_TO_TXN, 3, _add("nobody", (1, 0), "t1"))
    talk.ask("transactions/nothing is added", ADD_PARTITIONS_TO_TXN, 3, _add("t1", story.producer))


def fencing(talk: Talk) -> None:
    story = _Story(talk, "fencing", "f1", made(talk, "f1"))
    story.begin("an id")
    old = story.producer
    story.begins_anew()
    story.write("records", 0, "lost")
    talk.quietly(INIT_PRODUCER_ID, 4, _begin("f1"))
    story.settled()
    story.begin("once more")
    story.write("the old one writes", 1, "stale", at=old)
    story.add("the old one adds", at=old)
    story.add("the old one adds, in the first version", 0, at=old)
    story.end("the old one ends", True, at=old)
    story.end("the old one ends, in the first version", True, 0, at=old)
    group = {"transactional_id": "f1", "producer_id": old[0], "producer_epoch": old[1], "group_id": "fg"}
    talk.ask("fencing/the old one adds a group", ADD_OFFSETS_TO_TXN, 3, group)
    talk.ask("fencing/the old one asks for a later epoch", INIT_PRODUCER_ID, 4, _begin("f1", old))
    newer = (story.producer[0], story.producer[1] + 5)
    story.end("one from the future ends", True, at=newer)
    story.begins_anew()
    story.write("the new one writes", 0, "new")
    story.end("the new one ends", True)
    story.settled()
    story.show("at last")
    story.begin("the new one asks for a later epoch", known=story.producer)
    story.begins_anew()
    story.write("and writes from 0", 0, "later")
    story.end("and aborts", False)
    story.settled()
    story.show("after that", 2)


def offsets_within(talk: Talk) -> None:
    story = _Story(talk, "offsets within", "o1", made(talk, "o1"))
    coordinated(talk, "og")
    story.begin("an id")

    def commit(step: str, offset: int, topic: str = "o1", generation: int = -1, member: str = "") -> None:
        part = {"partition_index": 0, "committed_offset": offset, "committed_metadata": "m"}
        asked = {
            "transactional_id": "o1",
            "group_id": "og",
            "producer_id": story.producer[0],
            "producer_epoch": story.producer[1],
            "generation_id": generation,
            "member_id": member,
            "topics": [{"name": topic, "partitions": [part]}],
        }
        talk.ask(f"offsets within/{step}", TXN_OFFSET_COMMIT, 3, asked)

    def where(step: str, stable: bool) -> None:
        group = {"group_id": "og", "topics": [{"name": "o1", "partition_indexes": [0]}]}
        asked = {"groups": [group], "require_stable": stable}
        talk.ask(f"offsets within/{step}", OFFSET_FETCH, 8, asked)

    added = {"transactional_id": "o1", "producer_id": story.producer[0], "producer_epoch": story.producer[1]}
    talk.ask("offsets within/a group", ADD_OFFSETS_TO_TXN, 3, added | {"group_id": "og"})
    commit("a place", 5)
    commit("an unknown topic", 5, topic="nowhere")
    commit("an unknown member", 5, generation=3, member="nobody")
    commit("a generation without a member", 5, generation=3)
    where("where it is, perhaps", False)
    where("where it is for sure", True)
    story.end("an abort", False)
    talk.quietly(ADD_OFFSETS_TO_TXN, 3, added | {"group_id": "og"})
    where("where it is after the abort", True)
    commit("a later place", 9)
    story.end("a commit", True)
    talk.quietly(ADD_OFFSETS_TO_TXN, 3, added | {"group_id": "og"})
    where("where it is after the commit", True)
    story.end("nothing in it", True)


CHAPTERS = (numbered, transactions, fencing, offsets_within)
