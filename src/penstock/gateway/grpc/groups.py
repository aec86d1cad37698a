"""Groups: list, show, make, pause, resume, delete."""

from collections.abc import Mapping
from typing import Any

from penstock.access.resource import AccessRight, group, topic
from penstock.operate import groups
from penstock.operate.groups import create as create_group
from penstock.worker.handler_options import Start

from .call import GrpcCall
from .messages import message
from .shapes import group_shown
from .topics import PAGE

_Listed, _Changed = message("ListGroupsResponse"), message("ChangeGroupResponse")
_Deleted = message("DeleteGroupResponse")


async def listed(call: GrpcCall, request: Any) -> Any:
    """Return a page of the groups that the caller may know of."""
    after = request.after if request.HasField("after") else None
    limit = request.limit or PAGE
    page = await call.asked(groups.groups, call.store, after=after, limit=limit, seen=call.sees_topic)
    seen = [group_shown(each) for each in page.items if call.sees(group(each.name))]
    return _Listed(groups=seen, after=page.after)


async def get(call: GrpcCall, request: Any) -> Any:
    """Return a group."""
    call.allow(AccessRight.DESCRIBE, group(request.name))
    return await _shown(call, request.name)


async def _shown(call: GrpcCall, name: str) -> Any:
    return group_shown((await call.asked(groups.show, call.store, name, seen=call.sees_topic)).group)


async def create(call: GrpcCall, request: Any) -> Any:
    """Create a group on a topic; an existing one stays as it is."""
    call.allow(AccessRight.READ, topic(request.topic), group(request.name))
    start: Start = "latest" if request.from_latest else "earliest"
    await call.asked(create_group, call.store, request.name, request.topic, start=start)
    return await _shown(call, request.name)


async def pause(call: GrpcCall, request: Any) -> Any:
    """Stop delivery to a group until it is resumed."""
    call.allow(AccessRight.ALTER, group(request.name))
    return _Changed(changed=await call.asked(groups.pause, call.store, request.name, actor=call.actor))


async def resume(call: GrpcCall, request: Any) -> Any:
    """Resume a paused group."""
    call.allow(AccessRight.ALTER, group(request.name))
    return _Changed(changed=await call.asked(groups.resume, call.store, request.name, actor=call.actor))


async def delete(call: GrpcCall, request: Any) -> Any:
    """Forget a group."""
    call.allow(AccessRight.DELETE, group(request.name))
    gone = await call.asked(groups.delete, call.store, request.name, actor=call.actor)
    return _Deleted(cursors=gone.cursors, lanes=gone.lanes, dead=gone.dead)


GROUPS: Mapping[str, Any] = {
    "List": listed,
    "Get": get,
    "Create": create,
    "Pause": pause,
    "Resume": resume,
    "Delete": delete,
}
