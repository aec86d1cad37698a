"""Events for later: taking them back, and moving them to another time, while they wait in `scheduled`.

The move steps over a row that a caller has locked, and a caller waits for a move that has it: whoever comes
second finds nothing, so an answer "in time" is never a lie and neither can block the other for ever.
"""

from penstock.errors import InvalidSelection
from penstock.model.limits import LimitsSettings, check_key, check_moment, check_owner, check_topic
from penstock.model.partition import key_hash

from .event import check_id
from .steps import Step, Steps


def cancel_steps(
    id: str | None, topic: str, *, key: str | None, owner: str | None, limits: LimitsSettings
) -> Steps[int]:
    """Take scheduled events back, by id, key or owner; return how many were: those that were in time.

    Raises InvalidSelection, or a subclass of InvalidInput for what can be no id, key, owner or topic.
    """
    said = [name for name, value in (("id", id), ("key", key), ("owner", owner)) if value is not None]
    if len(said) != 1:
        how = "nothing was said" if not said else f"{' and '.join(said)} were given"
        raise InvalidSelection(f"cancel takes exactly one of id, key=... and owner=...; {how}")
    check_topic(topic)
    step = Step("cancel_owner", [(check_owner(owner, limits), topic)], counts=True)
    if id is not None:
        step = Step("cancel", [(check_id(id), topic)], counts=True)
    elif key is not None:
        check_key(key)
        step = Step("cancel_key", [(key_hash(key), key.encode(), topic)], counts=True)
    taken_back: int = yield step
    return taken_back


def reschedule_steps(id: str, at: object, topic: str, now_ms: int) -> Steps[bool]:
    """Give a scheduled event another time; return whether it was in time.

    A time that is now or past means now: it goes out at the next pass. Raises a subclass of InvalidInput.
    """
    check_id(id)
    check_topic(topic)
    due_ms = max(check_moment("at", at, now_ms), now_ms)
    changed: int = yield Step("reschedule", [(due_ms, id, topic)], counts=True)
    return changed == 1
