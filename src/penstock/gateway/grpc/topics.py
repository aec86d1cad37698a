"""Topics: list, show, make, delete."""

from collections.abc import Mapping
from typing import Any

from penstock.access.resource import AccessRight, topic
from penstock.model.partition import MURMUR3
from penstock.operate import topics
from penstock.operate.topics import TopicShown

from ..seen_groups import of_groups_seen
from .call import GrpcCall
from .messages import message
from .shapes import topic_shown

_PARTITIONS = 8  # default for a new topic, as through the other doors
PAGE = 100

_Listed, _Deleted = message("ListTopicsResponse"), message("DeleteTopicResponse")


async def listed(call: GrpcCall, request: Any) -> Any:
    """Return a page of the topics that the caller may know of."""
    after = request.after if request.HasField("after") else None
    page = await call.asked(topics.topics, call.store, after=after, limit=request.limit or PAGE)
    seen = [_told(call, each) for each in page.items if call.sees(topic(each.name))]
    return _Listed(topics=seen, after=page.after)


async def get(call: GrpcCall, request: Any) -> Any:
    """Return a topic."""
    call.allow(AccessRight.DESCRIBE, topic(request.name))
    return _told(call, await call.asked(topics.show, call.store, request.name))


def _told(call: GrpcCall, shown: TopicShown) -> Any:
    return topic_shown(of_groups_seen(shown, call.sees))


async def create(call: GrpcCall, request: Any) -> Any:
    """Create a topic; an existing one stays as it is."""
    name = request.name
    call.allow(AccessRight.CREATE, topic(name))
    await call.asked(
        topics.create,
        call.store,
        name,
        partitions=request.partitions or _PARTITIONS,
        partitioner=request.partitioner or MURMUR3,
        actor=call.actor,
    )
    return _told(call, await call.asked(topics.show, call.store, name))


async def delete(call: GrpcCall, request: Any) -> Any:
    """Delete a topic with all its records."""
    call.allow(AccessRight.DELETE, topic(request.name))
    force, actor = request.force, call.actor
    gone = await call.asked(topics.delete, call.store, request.name, force=force, actor=actor)
    return _Deleted(records=gone)


TOPICS: Mapping[str, Any] = {"List": listed, "Get": get, "Create": create, "Delete": delete}
