"""Topics: list, show, make, delete."""

from typing import Annotated

import msgspec

from penstock.access.resource import AccessRight, topic
from penstock.model.partition import MURMUR3
from penstock.operate import topics
from penstock.operate.paging import Page
from penstock.operate.topics import TopicPartition, TopicShown

from ..seen_groups import of_groups_seen
from .call import RestCall
from .operations import PAGING, TOPIC, Operation, Parameter, RestAnswer

_PARTITIONS = 8  # default for a new topic, as through the Kafka port


class TopicWanted(msgspec.Struct, forbid_unknown_fields=True):
    """A topic to create. `partitioner`: kafka, or murmur3 as topics of an outbox have it."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=249, pattern=r"^[a-zA-Z0-9._-]{1,249}$")]
    partitions: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = _PARTITIONS
    partitioner: str = MURMUR3


class TopicDeleted(msgspec.Struct):
    """The number of records in a deleted topic."""

    records: int


def listed(call: RestCall) -> Page[TopicShown]:
    """Return a page of the topics that the caller may know of."""
    page = topics.topics(call.store, after=call.get("after", str), limit=call.of("limit", int))
    seen = [of_groups_seen(each, call.sees) for each in page.items if call.sees(topic(each.name))]
    return Page(seen, page.after)


def create(call: RestCall) -> RestAnswer:
    """Create a topic; an existing one stays as it is."""
    wanted = call.json(TopicWanted)
    call.allow(AccessRight.CREATE, topic(wanted.name))
    made = topics.create(
        call.store,
        wanted.name,
        partitions=wanted.partitions,
        partitioner=wanted.partitioner,
        actor=call.actor,
    )
    shown = of_groups_seen(topics.show(call.store, wanted.name), call.sees)
    return RestAnswer(shown, 201 if made else 200)


def show(call: RestCall) -> TopicShown:
    """Return a topic."""
    name = call.of("topic", str)
    call.allow(AccessRight.DESCRIBE, topic(name))
    return of_groups_seen(topics.show(call.store, name), call.sees)


def partitions(call: RestCall) -> Page[TopicPartition]:
    """Return a page of a topic's partitions, with their offset ranges."""
    name = call.of("topic", str)
    call.allow(AccessRight.DESCRIBE, topic(name))
    return topics.partitions(call.store, name, after=call.get("after", str), limit=call.of("limit", int))


def delete(call: RestCall) -> TopicDeleted:
    """Delete a topic with all its records."""
    name = call.of("topic", str)
    call.allow(AccessRight.DELETE, topic(name))
    return TopicDeleted(topics.delete(call.store, name, force=call.of("force", bool), actor=call.actor))


_ONE = "/v1/topics/{topic}"
_FORCE = Parameter("force", bool, "Also while members serve it.", default=False)

TOPICS = (
    Operation(
        method="GET",
        path="/v1/topics",
        id="list_topics",
        summary="List topics.",
        tag="topics",
        call=listed,
        parameters=PAGING,
        answers={200: Page[TopicShown]},
    ),
    Operation(
        method="POST",
        path="/v1/topics",
        id="create_topic",
        summary="Make a topic.",
        tag="topics",
        call=create,
        takes={"application/json": TopicWanted},
        answers={201: TopicShown, 200: TopicShown},
    ),
    Operation(
        method="GET",
        path=_ONE,
        id="show_topic",
        summary="Show a topic.",
        tag="topics",
        call=show,
        parameters=(TOPIC,),
        answers={200: TopicShown},
    ),
    Operation(
        method="GET",
        path=f"{_ONE}/partitions",
        id="list_partitions",
        summary="List the partitions of a topic.",
        tag="topics",
        call=partitions,
        parameters=(TOPIC, *PAGING),
        answers={200: Page[TopicPartition]},
    ),
    Operation(
        method="DELETE",
        path=_ONE,
        id="delete_topic",
        summary="Delete a topic with all its records and every group's place in it.",
        tag="topics",
        call=delete,
        parameters=(TOPIC, _FORCE),
        answers={200: TopicDeleted},
    ),
)
