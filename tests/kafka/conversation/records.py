"""Records in and out: good and bad batches, empty topics, places, epochs, what is deleted."""

import struct

from penstock.wire.kafka.apis.records import DELETE_RECORDS, FETCH, LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH, PRODUCE
from penstock.wire.kafka.record_batch import Compression, read_header, sealed
from penstock.wire.kafka.records import record_bytes
from tests.kafka.raw import frame

from .bodies import EARLIEST, LATEST, batch, fetch, made, offsets, produce
from .talk import Talk

_NEWEST, _LOCAL, _TIERED = -3, -4, -5
_FAR_MS = 90 * 86_400_000


def producing(talk: Talk) -> None:
    made(talk, "in")
    made(talk, "odd")
    made(talk, "little", max_message_bytes="200")

    def ask(step: str, records: bytes | None, version: int = 9, **how: object) -> None:
        asked = produce(str(how.pop("topic", "in")), records, **how)  # type: ignore[arg-type]
        talk.ask(f"producing/{step}", PRODUCE, version, asked)

    good = batch(talk, "a", "b", None, keys=["k", None, "k"])
    ask("three records", good)
    for version in (3, 5, 7, 8, 10):
        ask(f"one record, version {version}", batch(talk, f"v{version}"), version)
    for codec in (Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD):
        ask(f"packed by {codec.name.lower()}", batch(talk, "p" * 50, "q", codec=codec))
    ask("packed by zstd, before it was known", batch(talk, "p", codec=Compression.ZSTD), 6)
    ask("an unknown topic", good, topic="nowhere")
    ask("an unknown partition", good, partition=7)
    ask("a partition below 0", good, partition=-1)
    ask("written by the leader alone", batch(talk, "one"), acks=1)
    ask("a number of acks that is none", good, acks=2)
    ask("no records", None)
    ask("no bytes", b"")
    ask("a batch cut short", good[:-3])
    ask("a byte changed", good[:-1] + bytes([good[-1] ^ 1]))
    ask("two batches", good + good, topic="odd")
    header, rest = read_header(good), record_bytes(good)
    ask("more records than there are", bytes(sealed(header._replace(record_count=5), rest)))
    ask("an offset too many", bytes(sealed(header._replace(last_offset_delta=3), rest)))
    ask("a control batch", bytes(sealed(header._replace(attributes=0x20), rest)))
    ask("a codec that nobody has", bytes(sealed(header._replace(attributes=7), rest)))
    ask("an empty batch", bytes(sealed(header._replace(record_count=0, last_offset_delta=-1), b"")))
    ask("the format before", good[:16] + b"\1" + good[17:])
    ask("more than fits the topic", batch(talk, "x" * 400), topic="little")
    ask("a time to come", batch(talk, "late", times=[_FAR_MS]), topic="odd")
    ask("a time long ago", batch(talk, "early", times=[-_FAR_MS]))
    ask("a time before all", batch(talk, "no time", times=[-talk.begin_ms - 1]), topic="odd")
    for step, topic, acks in (("without acks", "in", 0), ("without acks, to nowhere", "nowhere", 0)):
        body = PRODUCE.encode_request(produce(topic, batch(talk, "quiet"), acks=acks), 9)
        probe = offsets("in", EARLIEST)
        talk.after_silence(f"producing/{step}", frame(PRODUCE, 9, body, id=9), LIST_OFFSETS, 5, probe)
    talk.ask("producing/all of it", FETCH, 11, fetch("in", 0))
    talk.ask("producing/all that is odd", FETCH, 11, fetch("odd", 0))


def fetching(talk: Talk) -> None:
    made(talk, "out", 2)
    made(talk, "empty")
    for number in range(3):
        records = batch(talk, *(f"{number}{each}" for each in "abc"), times=[1000 * number + 10] * 3)
        talk.quietly(PRODUCE, 9, produce("out", records))

    def ask(step: str, topic: str, offset: int, version: int = 11, **how: object) -> None:
        talk.ask(f"fetching/{step}", FETCH, version, fetch(topic, offset, **how))  # type: ignore[arg-type]

    for version in (4, 5, 7, 9, 11, 12):
        ask(f"from the beginning, version {version}", "out", 0, version)
    ask("committed records only", "out", 0, committed=True)
    ask("in the middle of a batch", "out", 4)
    ask("few bytes", "out", 0, max_bytes=1)
    ask("at the end", "out", 9)
    ask("at the end, waiting", "out", 9, wait_ms=50)
    ask("beyond the end", "out", 10)
    ask("far beyond the end", "out", 1 << 40)
    ask("below 0", "out", -1)
    ask("an empty topic", "empty", 0)
    ask("an empty topic, committed", "empty", 0, committed=True)
    ask("beyond the end of an empty topic", "empty", 1)
    ask("an unknown topic", "nowhere", 0)
    ask("an unknown partition", "out", 0, partition=9)
    ask("an epoch to come", "out", 0, epoch=5)
    ask("the epoch there is", "out", 8, epoch=0)
    ask("an unknown session", "out", 0, session=(4711, 1))
    ask("a session that begins", "out", 8, session=(0, 0))
    ask("an epoch of no session", "out", 8, session=(0, 5))
    for key in ("fetching/a session that begins", "fetching/an epoch of no session"):
        told = talk.answers[key]
        if told.get("session_id"):
            told["session_id"] = "a session"


def places(talk: Talk) -> None:
    made(talk, "times", 2)
    for moment in (10, 2000, 1000):
        talk.quietly(PRODUCE, 9, produce("times", batch(talk, "x", "y", times=[moment, moment + 5])))

    def ask(step: str, moment: int, version: int = 7, **how: object) -> None:
        topic = str(how.pop("topic", "times"))
        talk.ask(f"places/{step}", LIST_OFFSETS, version, offsets(topic, moment, **how))  # type: ignore[arg-type]

    for version in (1, 2, 4, 6, 9):
        ask(f"the end, version {version}", LATEST, version)
    ask("the beginning", EARLIEST)
    ask("the end of what is committed", LATEST, committed=True)
    ask("a moment before all", talk.begin_ms)
    ask("the moment of a record", talk.begin_ms + 2000)
    ask("a moment between", talk.begin_ms + 500)
    ask("a moment after all", talk.begin_ms + 5000)
    ask("the newest record", _NEWEST)
    ask("the newest record, in a version that does not know it", _NEWEST, 6)
    ask("what is on this disk", _LOCAL, 8)
    ask("what is on no disk here", _TIERED, 9)
    ask("a moment that is none", -99)
    for name, moment in (("beginning", EARLIEST), ("end", LATEST), ("newest record", _NEWEST)):
        ask(f"the {name} of an empty partition", moment, partition=1)
    ask("a moment in an empty partition", talk.begin_ms, partition=1)
    ask("an unknown topic", LATEST, topic="nowhere")
    ask("an unknown partition", LATEST, partition=9)
    ask("an epoch to come", LATEST, epoch=5)
    ask("the epoch there is", LATEST, epoch=0)


def epochs(talk: Talk) -> None:
    made(talk, "epochs")
    talk.quietly(PRODUCE, 9, produce("epochs", batch(talk, "a", "b")))

    def ask(step: str, epoch: int, current: int = -1, topic: str = "epochs", partition: int = 0) -> None:
        part = {"partition": partition, "current_leader_epoch": current, "leader_epoch": epoch}
        asked = {"replica_id": -1, "topics": [{"topic": topic, "partitions": [part]}]}
        talk.ask(f"epochs/{step}", OFFSET_FOR_LEADER_EPOCH, 4, asked)

    ask("where the first ends", 0)
    ask("where one to come ends", 3)
    ask("where none ends", -1)
    ask("by one who knows a later one", 0, current=4)
    ask("by one who knows this one", 0, current=0)
    ask("of an unknown topic", 0, topic="nowhere")
    ask("of an unknown partition", 0, partition=5)


def trimming(talk: Talk) -> None:
    made(talk, "trimmed")
    for number in range(4):
        talk.quietly(PRODUCE, 9, produce("trimmed", batch(talk, f"{number}", "x")))

    def ask(step: str, offset: int, topic: str = "trimmed", partition: int = 0) -> None:
        part = {"partition_index": partition, "offset": offset}
        asked = {"topics": [{"name": topic, "partitions": [part]}], "timeout_ms": 10_000}
        talk.ask(f"trimming/{step}", DELETE_RECORDS, 2, asked)

    ask("before 2", 2)
    ask("before 2 again", 2)
    ask("before 0", 0)
    ask("before less than 0", -5)
    ask("before what is to come", 99)
    ask("of an unknown topic", 1, topic="nowhere")
    ask("of an unknown partition", 1, partition=7)
    talk.ask("trimming/where it begins", LIST_OFFSETS, 7, offsets("trimmed", EARLIEST))
    talk.ask("trimming/what is gone", FETCH, 11, fetch("trimmed", 1))
    talk.ask("trimming/what is left", FETCH, 11, fetch("trimmed", 2))
    talk.ask("trimming/an answer tells the beginning", PRODUCE, 9, produce("trimmed", batch(talk, "new")))
    ask("all", -1)
    talk.ask("trimming/where all is gone", FETCH, 11, fetch("trimmed", 9))
    talk.ask("trimming/where it begins after that", LIST_OFFSETS, 7, offsets("trimmed", EARLIEST))


def framing(talk: Talk) -> None:
    """Say what no client says."""
    talk.say("framing/a size below 0", struct.pack(">i", -1))
    talk.say("framing/a size of 2 GB", struct.pack(">i", 2**31 - 1))
    talk.say("framing/no header", struct.pack(">i", 2) + b"\0\0")
    talk.say("framing/half a request", frame(LIST_OFFSETS, 5, b"\0\0\0"))


CHAPTERS = (producing, fetching, places, epochs, trimming, framing)
