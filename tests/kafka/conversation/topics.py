"""What there is: versions, brokers, coordinators; topics made, shown, grown and deleted."""

import struct
from uuid import UUID

from penstock.wire.kafka.apis.cluster import API_VERSIONS, DESCRIBE_CLUSTER, FIND_COORDINATOR
from penstock.wire.kafka.apis.topics import CREATE_PARTITIONS, CREATE_TOPICS, DELETE_TOPICS, METADATA
from penstock.wire.kafka.layout import Message

from .bodies import coordinated, create, made, new_topic, visible
from .talk import Talk

_NO_ID, _NOBODY = UUID(int=0), UUID(int=7)


def versions(talk: Talk) -> None:
    software = {"client_software_name": "script", "client_software_version": "1"}
    for version in (0, 1, 3, 4):
        all_of_them = talk.ask(f"versions/version {version}", API_VERSIONS, version, software)["api_keys"]
    talk.ask("versions/a name that is none", API_VERSIONS, 3, {"client_software_name": "?"})
    odd = struct.pack(">hhih", 18, 99, 5, -1) + b"\0\0\0\0"
    answer = talk.say("versions/one that nobody has", struct.pack(">i", len(odd)) + odd)
    talk.answers["versions/one that nobody has, answered in the first"] = API_VERSIONS.decode_answer(answer, 0, 4)
    for name, said in talk.answers.items():  # which versions there are is compared by another test
        if name.startswith("versions/") and isinstance(said, dict):
            own = [each for each in said["api_keys"] if each["api_key"] == API_VERSIONS.key]
            talk.answers[name] = {"error_code": said["error_code"], "own range": own}
    ranges = [[each["api_key"], each["min_version"], each["max_version"]] for each in all_of_them]
    talk.answers["versions/all of them"] = sorted(ranges)
    for name, key in (("an api that nobody has", 999), ("a version that nobody has", 3)):
        odd = struct.pack(">hhih", key, 99, 5, -1) + b"\0"
        talk.say(f"versions/{name}", struct.pack(">i", len(odd)) + odd)


def cluster(talk: Talk) -> None:
    talk.ask("cluster/described", DESCRIBE_CLUSTER, 0, {})
    talk.ask("cluster/its controllers", DESCRIBE_CLUSTER, 1, {"endpoint_type": 2})
    talk.ask("cluster/a kind of place that nobody has", DESCRIBE_CLUSTER, 1, {"endpoint_type": 9})
    coordinated(talk, "g")
    coordinated(talk, "x", 1)
    talk.ask("cluster/coordinator of a group", FIND_COORDINATOR, 0, {"key": "g"})
    talk.ask("cluster/coordinator of a transaction", FIND_COORDINATOR, 2, {"key": "x", "key_type": 1})
    talk.ask("cluster/coordinators", FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": ["g", "h"]})
    talk.ask("cluster/coordinators of nothing", FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": []})
    talk.ask("cluster/coordinator of another kind", FIND_COORDINATOR, 2, {"key": "g", "key_type": 9})


def creating(talk: Talk) -> None:
    def ask(step: str, *topics: Message, version: int = 7, validate_only: bool = False) -> None:
        talk.ask(f"creating/{step}", CREATE_TOPICS, version, create(*topics, validate_only=validate_only))
        said = talk.answers[f"creating/{step}"]
        for each in said["topics"]:  # which configs there are is another matter
            each.pop("configs", None)

    ask("two partitions", new_topic("made", 2))
    visible(talk, "made", 2)
    ask("again", new_topic("made", 2))
    ask("again, to be checked only", new_topic("made", 2), validate_only=True)
    ask("to be checked only", new_topic("never", 3), validate_only=True)
    ask("twice in one request", new_topic("twice"), new_topic("twice"))
    ask("one good, one bad", new_topic("good"), new_topic("bad name"))
    visible(talk, "good")
    ask("in an older version", new_topic("older"), version=4)
    ask("as many partitions as usual", new_topic("usual", -1, replicas=-1))
    ask("no partitions", new_topic("none", 0))
    ask("fewer than no partitions", new_topic("none", -2))
    ask("three replicas", new_topic("three", replicas=3))
    ask("no replicas", new_topic("zero", replicas=0))
    for name in ("", ".", "..", "a/b", "ä", "x" * 249, "x" * 250):
        ask(f"named {name[:5]!r} with {len(name)} characters", new_topic(name))
    ask("a dot where another has an underscore", new_topic("a.b"), new_topic("a_b"))
    ask("an unknown config", new_topic("odd", no_such="1"))
    ask("a config that is no number", new_topic("odd", retention_ms="soon"))
    ask("a config below its least", new_topic("odd", retention_ms="-5"))
    ask("a config without a value", new_topic("odd", retention_ms=None))
    by_hand = {"partition_index": 0, "broker_ids": [1]}
    ask("placed by hand", new_topic("placed", -1, replicas=-1) | {"assignments": [by_hand]})
    ask("placed by hand, and counted", new_topic("placed2") | {"assignments": [by_hand]})
    ask("nothing")


def metadata(talk: Talk) -> None:
    made(talk, "seen", 2)
    known = talk.quietly(METADATA, 12, {"topics": [{"name": "seen", "topic_id": UUID(int=0)}]})

    def ask(step: str, version: int, *names: str | None, id: UUID = _NO_ID) -> None:
        wanted = [{"name": name, "topic_id": id} for name in names]
        asked = {"topics": wanted, "allow_auto_topic_creation": False}
        talk.ask(f"metadata/{step}", METADATA, version, asked)

    for version in (1, 4, 7, 9, 12):
        ask(f"a topic, version {version}", version, "seen")
    ask("nothing", 4)
    ask("a topic twice", 4, "seen", "seen")
    ask("an unknown topic", 4, "nowhere")
    ask("an unknown and a known topic", 9, "nowhere", "seen")
    ask("a name that is none", 9, "a/b")
    ask("an empty name", 9, "")
    ask("by id", 12, None, id=known["topics"][0]["topic_id"])
    ask("an unknown id", 12, None, id=_NOBODY)
    ask("by id and name", 12, "seen", id=known["topics"][0]["topic_id"])
    ask("by id in a version that has none", 10, None, id=known["topics"][0]["topic_id"])


def growing(talk: Talk) -> None:
    made(talk, "small", 2)

    def ask(step: str, *counts: int, name: str = "small", check: bool = False) -> None:
        topics = [{"name": name, "count": count, "assignments": None} for count in counts]
        asked = {"topics": topics, "timeout_ms": 10_000, "validate_only": check}
        talk.ask(f"growing/{step}", CREATE_PARTITIONS, 3, asked)

    ask("to be checked only", 4, check=True)
    ask("to twice as many", 4)
    visible(talk, "small", 4)
    ask("to as many as there are", 4)
    ask("to fewer", 2)
    ask("to none", 0)
    ask("to fewer than none", -1)
    ask("an unknown topic", 4, name="nowhere")
    ask("twice in one request", 8, 16)
    ask("to one more, to be checked only", 5, check=True)
    ask("to one more", 5)


def deleting(talk: Talk) -> None:
    for name in ("gone", "gone2", "gone3", "gone4"):
        made(talk, name)

    def by_name(step: str, version: int, *names: str) -> None:
        asked: Message = {"topic_names": names, "timeout_ms": 10_000}
        if version >= 6:
            asked |= {"topics": [{"name": name, "topic_id": UUID(int=0)} for name in names]}
        talk.ask(f"deleting/{step}", DELETE_TOPICS, version, asked)

    wanted = {"topics": [{"name": "gone3", "topic_id": UUID(int=0)}]}
    id = talk.quietly(METADATA, 12, wanted)["topics"][0]["topic_id"]
    by_name("by name", 5, "gone")
    by_name("again", 5, "gone")
    by_name("by name in the newest version", 6, "gone2")
    by_name("an unknown topic", 6, "nowhere")
    by_name("twice in one request", 5, "gone4", "gone4")
    odd: tuple[tuple[str, str | None, UUID], ...] = (
        ("by id", None, id),
        ("an unknown id", None, _NOBODY),
        ("by name and id", "gone", id),
        ("by nothing", None, UUID(int=0)),
    )
    for step, given, topic_id in odd:
        asked = {"topics": [{"name": given, "topic_id": topic_id}], "timeout_ms": 10_000}
        talk.ask(f"deleting/{step}", DELETE_TOPICS, 6, asked)
    made(talk, "gone")
    talk.ask("deleting/made anew", METADATA, 9, {"topics": [{"name": "gone"}]})


CHAPTERS = (versions, cluster, creating, metadata, growing, deleting)
