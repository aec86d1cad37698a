"""Groups of consumers: joining, sharing out, leaving; what they commit; how they are seen."""

from penstock.wire.kafka.apis.groups import (
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    SYNC_GROUP,
)
from penstock.wire.kafka.layout import Message

from .bodies import coordinated, made
from .talk import Talk

# What a client subscribes to, in the form that Kafka's own have: version 0, one topic "consumed", no data.
SUBSCRIBED = b"\0\0" + b"\0\0\0\1" + b"\0\x08consumed" + b"\0\0\0\0"
SHARE = b"\0\0" + b"\0\0\0\1" + b"\0\x08consumed" + b"\0\0\0\1" + b"\0\0\0\0" + b"\0\0\0\0"


def _join(
    group: str,
    member: str = "",
    *,
    instance: str | None = None,
    session_ms: int = 30_000,
    kind: str = "consumer",
    protocols: tuple[str, ...] = ("range",),
) -> Message:
    return {
        "group_id": group,
        "session_timeout_ms": session_ms,
        "rebalance_timeout_ms": 30_000,
        "member_id": member,
        "group_instance_id": instance,
        "protocol_type": kind,
        "protocols": [{"name": name, "metadata": SUBSCRIBED} for name in protocols],
    }


def _sync(group: str, member: str, generation: int, *given: str, instance: str | None = None) -> Message:
    return {
        "group_id": group,
        "generation_id": generation,
        "member_id": member,
        "group_instance_id": instance,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [{"member_id": each, "assignment": SHARE} for each in given],
    }


def _beat(group: str, member: str, generation: int, instance: str | None = None) -> Message:
    return {"group_id": group, "generation_id": generation, "member_id": member, "group_instance_id": instance}


def _commit(
    group: str, member: str = "", generation: int = -1, *, topic: str = "consumed", offset: int = 3, **more: str
) -> Message:
    part = {
        "partition_index": int(more.get("partition", 0)),
        "committed_offset": offset,
        "committed_metadata": more.get("metadata", "m"),
    }
    return {
        "group_id": group,
        "generation_id_or_member_epoch": generation,
        "member_id": member,
        "topics": [{"name": topic, "partitions": [part]}],
    }


def members(talk: Talk) -> None:
    made(talk, "consumed", 2)
    coordinated(talk, "g1")
    for step, asked in (
        ("without a group", _join("")),
        ("with too short a session", _join("g1", session_ms=1)),
        ("with too long a session", _join("g1", session_ms=10**8)),
        ("as somebody unknown", _join("g1", "nobody")),
        ("without a protocol", _join("g1", protocols=())),
        ("without a kind of protocol", _join("g1", kind="")),
    ):
        talk.ask(f"members/joining {step}", JOIN_GROUP, 5, asked)
    one = talk.ask("members/joining", JOIN_GROUP, 5, _join("g1"))["member_id"]
    talk.ask("members/joining with the id", JOIN_GROUP, 5, _join("g1", one))
    talk.ask("members/a heartbeat before its share", HEARTBEAT, 3, _beat("g1", one, 1))
    talk.ask("members/a commit before its share", OFFSET_COMMIT, 7, _commit("g1", one, 1))
    talk.ask("members/sharing out as nobody", SYNC_GROUP, 5, _sync("g1", "nobody", 1))
    talk.ask("members/sharing out a generation to come", SYNC_GROUP, 5, _sync("g1", one, 9))
    odd = _sync("g1", one, 1, one) | {"protocol_name": "other"}
    talk.ask("members/sharing out by another protocol", SYNC_GROUP, 5, odd)
    talk.ask("members/sharing out", SYNC_GROUP, 5, _sync("g1", one, 1, one))
    talk.ask("members/sharing out again", SYNC_GROUP, 3, _sync("g1", one, 1))
    for step, member, generation in (
        ("a heartbeat", one, 1),
        ("a heartbeat of nobody", "nobody", 1),
        ("a heartbeat of a generation to come", one, 7),
        ("a heartbeat of a generation before", one, 0),
    ):
        talk.ask(f"members/{step}", HEARTBEAT, 3, _beat("g1", member, generation))
    talk.ask("members/a heartbeat to no group", HEARTBEAT, 3, _beat("g-none", one, 1))
    talk.ask("members/a heartbeat to a group without a name", HEARTBEAT, 3, _beat("", one, 1))
    talk.ask("members/sharing out in no group", SYNC_GROUP, 5, _sync("g-none", one, 1))
    talk.ask("members/joining by another protocol", JOIN_GROUP, 5, _join("g1", protocols=("other",)))
    talk.ask("members/joining by another kind", JOIN_GROUP, 5, _join("g1", kind="connect"))
    talk.ask("members/described", DESCRIBE_GROUPS, 5, {"groups": ["g1"]})
    talk.ask("members/deleted while used", DELETE_GROUPS, 2, {"groups_names": ["g1"]})
    two = talk.quietly(JOIN_GROUP, 4, _join("g1"), by="two")["member_id"]
    talk.told(two, "member_id")
    talk.send("members/a second one", JOIN_GROUP, 5, _join("g1", two), by="two")
    talk.until(HEARTBEAT, 3, _beat("g1", one, 1), lambda answer: answer["error_code"] != 0)
    talk.ask("members/a heartbeat while all are called", HEARTBEAT, 3, _beat("g1", one, 1))
    talk.ask("members/a commit while all are called", OFFSET_COMMIT, 7, _commit("g1", one, 1))
    talk.ask("members/the first joins again", JOIN_GROUP, 5, _join("g1", one))
    talk.take("two")
    talk.send("members/the second waits for its share", SYNC_GROUP, 5, _sync("g1", two, 2), by="two")
    talk.ask("members/both have shares", SYNC_GROUP, 5, _sync("g1", one, 2, one, two))
    talk.take("two")
    talk.ask("members/a heartbeat of the generation before", HEARTBEAT, 3, _beat("g1", one, 1))
    leaving = {"group_id": "g1", "members": [{"member_id": two}, {"member_id": "nobody"}]}
    talk.ask("members/one leaves, and nobody", LEAVE_GROUP, 4, leaving)
    talk.ask("members/the rest is called", HEARTBEAT, 3, _beat("g1", one, 2))
    talk.ask("members/the last leaves", LEAVE_GROUP, 1, {"group_id": "g1", "member_id": one})
    talk.ask("members/nobody leaves", LEAVE_GROUP, 1, {"group_id": "g1", "member_id": one})
    talk.ask("members/leaving no group", LEAVE_GROUP, 1, {"group_id": "g-none", "member_id": one})
    talk.ask("members/described without members", DESCRIBE_GROUPS, 5, {"groups": ["g1"]})


def static_members(talk: Talk) -> None:
    coordinated(talk, "g2")
    first = talk.ask("static/joining", JOIN_GROUP, 7, _join("g2", instance="i"))["member_id"]
    talk.ask("static/sharing out", SYNC_GROUP, 5, _sync("g2", first, 1, first, instance="i"))
    second = talk.ask("static/starting again", JOIN_GROUP, 9, _join("g2", instance="i"))["member_id"]
    talk.ask("static/its share", SYNC_GROUP, 5, _sync("g2", second, 1, instance="i"))
    talk.ask("static/the former one beats", HEARTBEAT, 3, _beat("g2", first, 1, "i"))
    talk.ask("static/the former one joins", JOIN_GROUP, 7, _join("g2", first, instance="i"))
    talk.ask("static/the present one beats", HEARTBEAT, 3, _beat("g2", second, 1, "i"))
    talk.ask("static/an unknown instance beats", HEARTBEAT, 3, _beat("g2", second, 1, "j"))
    for step, member, instance in (
        ("the former one is sent away", first, "i"),
        ("an unknown instance is sent away", "", "j"),
        ("the present one is sent away", "", "i"),
    ):
        asked = {"group_id": "g2", "members": [{"member_id": member, "group_instance_id": instance}]}
        talk.ask(f"static/{step}", LEAVE_GROUP, 4, asked)


def commits(talk: Talk) -> None:
    made(talk, "consumed", 2)
    coordinated(talk, "g3")
    talk.ask("commits/by nobody", OFFSET_COMMIT, 7, _commit("g3"))
    talk.ask("commits/by somebody unknown", OFFSET_COMMIT, 7, _commit("g3", "nobody", 4))
    talk.ask("commits/by a generation alone", OFFSET_COMMIT, 7, _commit("g3", "", 4))
    talk.ask("commits/an unknown topic", OFFSET_COMMIT, 7, _commit("g3", topic="nowhere"))
    talk.ask("commits/an unknown partition", OFFSET_COMMIT, 7, _commit("g3", partition="9"))
    talk.ask("commits/too much said of it", OFFSET_COMMIT, 7, _commit("g3", metadata="m" * 5000))
    talk.ask("commits/a place below 0", OFFSET_COMMIT, 7, _commit("g3", offset=-1))
    talk.ask("commits/a place beyond the end", OFFSET_COMMIT, 7, _commit("g3", offset=10**9, partition="1"))
    talk.ask("commits/of a group without a name", OFFSET_COMMIT, 7, _commit(""))
    talk.ask("commits/in the first version", OFFSET_COMMIT, 2, _commit("g3", offset=4))
    talk.ask("commits/in the newest version", OFFSET_COMMIT, 9, _commit("g3", offset=5))

    def where(step: str, version: int, group: str, wanted: list[Message] | None) -> None:
        asked: Message = {"group_id": group, "topics": wanted}
        if version >= 8:
            asked = {"groups": [{"group_id": group, "topics": wanted}]}
        talk.ask(f"commits/{step}", OFFSET_FETCH, version, asked)

    consumed = {"name": "consumed", "partition_indexes": [0, 1, 9]}
    nowhere = {"name": "nowhere", "partition_indexes": [0]}
    for version in (1, 5, 7, 8, 9):
        where(f"where it is, version {version}", version, "g3", [consumed])
    where("where it is in an unknown topic", 5, "g3", [nowhere])
    where("where it is in all", 7, "g3", None)
    where("where an unknown group is", 5, "g-none", [consumed])
    where("where an unknown group is in all", 8, "g-none", None)
    where("where a group without a name is", 5, "", [consumed])
    for step, group, topic in (
        ("forgetting", "g3", "consumed"),
        ("forgetting again", "g3", "consumed"),
        ("forgetting an unknown topic", "g3", "nowhere"),
        ("forgetting in an unknown group", "g-none", "consumed"),
        ("forgetting in a group without a name", "", "consumed"),
    ):
        parts = [{"partition_index": 1}]
        asked = {"group_id": group, "topics": [{"name": topic, "partitions": parts}]}
        talk.ask(f"commits/{step}", OFFSET_DELETE, 0, asked)
    where("what is left", 7, "g3", None)


def listed(talk: Talk) -> None:
    coordinated(talk, "g4")
    made(talk, "consumed", 2)
    talk.quietly(OFFSET_COMMIT, 7, _commit("g4"))
    for step, states in (("empty ones", ["Empty"]), ("dead ones", ["Dead"]), ("odd ones", ["Odd"])):
        found = talk.ask(f"listed/{step}", LIST_GROUPS, 4, {"states_filter": states})
        own = [each for each in found.get("groups", ()) if each["group_id"] == "g4"]
        talk.answers[f"listed/{step}"]["groups"] = own
    talk.ask("listed/described", DESCRIBE_GROUPS, 5, {"groups": ["g4", "g-none", ""]})
    deleted = {"groups_names": ["g4", "g-none", ""]}
    talk.ask("listed/deleted", DELETE_GROUPS, 2, deleted)
    talk.ask("listed/deleted again", DELETE_GROUPS, 1, deleted)
    talk.ask("listed/described after that", DESCRIBE_GROUPS, 4, {"groups": ["g4"]})


CHAPTERS = (members, static_members, commits, listed)
