"""Publishing from a page: one record, with the access rules and limits of the REST API, and audited."""

from uuid import uuid4

import msgspec

from penstock.access.resource import AccessRight, topic
from penstock.errors import InvalidInput
from penstock.model.cloudevents_http import content_headers
from penstock.model.content import JSON
from penstock.operate.producer import AppendedRecord, RecordWanted, publish_by_hand

from .plan import ActPlan
from .visit import PageVisit, address
from .wording import number

MOST_CHARACTERS = 65_536  # of a value
_TEXT = "text/plain; charset=utf-8"


def publish(visit: PageVisit) -> ActPlan:
    """Add a record to a topic. The form has a token, so a form sent twice adds one record."""
    name, token = visit.needed("topic"), visit.text("token") or uuid4().hex
    record, is_json = _wanted(visit)
    shown = visit.ask("show_topic", topic=name)
    _publish(visit, name, record, token, dry_run=True)
    size = None if record.value is None else len(record.value)
    what = f"{'JSON' if is_json else 'Text'} of {number(size)} bytes." if size is not None else "No value."
    key = "It has no key: no order is promised." if record.key is None else f"Its key is {record.key}."
    return ActPlan(
        f"Publish {record.type or 'a record'} to {name}?",
        (lambda: _publish(visit, name, record, token),),
        lambda found: f"published: {name}/{found[0].partition}/{found[0].offset}",
        address("topic", name=name),
        (key, what, f"Groups that read {name} get it: {number(len(shown.groups))}. It cannot be taken back."),
        fields=(("token", token),),
    )


def _wanted(visit: PageVisit) -> tuple[RecordWanted, bool]:
    if visit.text("tombstone"):
        return RecordWanted(None, visit.text("type"), visit.text("key")), False
    text = str(visit.query.get("value", ""))
    if len(text) > MOST_CHARACTERS:
        raise InvalidInput(
            f"the value has {number(len(text))} characters; a page takes at most {number(MOST_CHARACTERS)}; "
            "send it with penstock produce"
        )
    if not text:
        raise InvalidInput("the field value is empty; tick No value for a record without one")
    data = text.encode("utf-8", "surrogatepass")
    is_json = _is_json(data)
    headers = content_headers(JSON if is_json else _TEXT, data)
    return RecordWanted(data, visit.text("type"), visit.text("key"), headers), is_json


def _publish(
    visit: PageVisit, name: str, record: RecordWanted, token: str, *, dry_run: bool = False
) -> AppendedRecord | None:
    call = visit.ask.call("publish", record.value or b"", topic=name)
    call.allow(AccessRight.WRITE, topic(name))
    if not dry_run:
        call.admit(name)
    return publish_by_hand(call.store, name, record, token=token, actor=call.actor, dry_run=dry_run)


def _is_json(data: bytes) -> bool:
    try:
        msgspec.json.decode(data)
    except (ValueError, RecursionError):
        return False
    return True
