"""Topics, groups and schemas of values as clients of REST and gRPC list, show, change and delete them.

One function for each operation: it checks the caller's rights, and calls the room below. It runs in a thread
of the door. Answers leave out topics and groups that the caller may not know of.
"""

from dataclasses import replace

from penstock.access.resource import AccessRight, group, topic
from penstock.operate import groups, topics, value_schemas
from penstock.operate.groups import Forgotten
from penstock.operate.operation import Page
from penstock.operate.progress import Group, GroupShown
from penstock.operate.topics import TopicShown
from penstock.operate.value_schemas import ValueSchema
from penstock.worker.handler_options import Start

from .door import DoorCall


def list_topics(call: DoorCall, after: str | None, limit: int) -> Page[TopicShown]:
    """Return a page of the topics."""
    page = topics.topics(call.store, after=after, limit=limit, seen=call.sees_topic)
    return Page([_seen(call, each) for each in page.items], page.after)


def show_topic(call: DoorCall, name: str) -> TopicShown:
    """Return a topic."""
    call.allow(AccessRight.DESCRIBE, topic(name))
    return _seen(call, topics.show(call.store, name))


def create_topic(call: DoorCall, name: str, partitions: int, partitioner: str) -> tuple[TopicShown, bool]:
    """Create a topic; an existing one stays as it is. Return it, and whether it is new."""
    call.allow(AccessRight.CREATE, topic(name))
    is_new = topics.create(call.store, name, partitions=partitions, partitioner=partitioner, actor=call.actor)
    return _seen(call, topics.show(call.store, name)), is_new


def delete_topic(call: DoorCall, name: str, force: bool) -> int:
    """Delete a topic with all its records; return how many there were."""
    call.allow(AccessRight.DELETE, topic(name))
    return topics.delete(call.store, name, force=force, actor=call.actor)


def _seen(call: DoorCall, shown: TopicShown) -> TopicShown:
    return replace(shown, groups=tuple(each for each in shown.groups if call.sees(group(each))))


def list_groups(call: DoorCall, after: str | None, limit: int) -> Page[Group]:
    """Return a page of the groups."""
    seen, seen_group = call.sees_topic, call.sees_group
    return groups.groups(call.store, after=after, limit=limit, seen=seen, seen_group=seen_group)


def show_group(call: DoorCall, name: str) -> GroupShown:
    """Return a group with its topics."""
    call.allow(AccessRight.DESCRIBE, group(name))
    return groups.show(call.store, name, seen=call.sees_topic)


def create_group(call: DoorCall, name: str, of: str, start: Start) -> GroupShown:
    """Create a group on a topic; an existing one stays as it is."""
    call.allow(AccessRight.READ, topic(of), group(name))
    groups.create(call.store, name, of, start=start)
    return groups.show(call.store, name, seen=call.sees_topic)


def pause_group(call: DoorCall, name: str) -> bool:
    """Stop delivery to a group until it is resumed; return whether that is a change."""
    call.allow(AccessRight.ALTER, group(name))
    return groups.pause(call.store, name, actor=call.actor)


def resume_group(call: DoorCall, name: str) -> bool:
    """Resume a paused group; return whether it was paused."""
    call.allow(AccessRight.ALTER, group(name))
    return groups.resume(call.store, name, actor=call.actor)


def delete_group(call: DoorCall, name: str) -> Forgotten:
    """Forget a group."""
    call.allow(AccessRight.DELETE, group(name))
    return groups.delete(call.store, name, actor=call.actor)


def list_schemas(call: DoorCall, name: str) -> list[ValueSchema]:
    """Return the schemas of a topic."""
    call.allow(AccessRight.DESCRIBE, topic(name))
    return value_schemas.schemas(call.store, name)


def register_schema(call: DoorCall, name: str, type: str, message: str, descriptors: bytes) -> list[ValueSchema]:
    """Register a schema; it replaces an existing one. Return all of the topic."""
    call.allow(AccessRight.ALTER, topic(name))
    value_schemas.register(call.store, name, message, descriptors, type=type, actor=call.actor)
    return value_schemas.schemas(call.store, name)


def remove_schema(call: DoorCall, name: str, type: str) -> None:
    """Remove a schema; stored records stay as they are."""
    call.allow(AccessRight.ALTER, topic(name))
    value_schemas.remove(call.store, name, type=type, actor=call.actor)
