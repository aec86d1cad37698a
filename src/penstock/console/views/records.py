"""Events: topics and their records, keys, dead letters, and events to come."""

from base64 import b64decode
from typing import Any

import msgspec
from starlette.responses import Response

from penstock.errors import InvalidInput, OffsetOutOfRange
from penstock.gateway.rest.answers import RecordShown
from penstock.gateway.rest.records import browsed_records
from penstock.model.content import has_json
from penstock.operate.browse import BrowsedRecord

from ..visit import PageView, PageVisit
from ..wording import hexed, indented

PER_PAGE = 50
SHOWN_BYTES = 64 * 1024  # of a value on a page; the download has all of it
_PREVIEW = 300


def topic(visit: PageVisit) -> PageView:
    """Show a topic with a page of its records."""
    name = _named(visit, "name")
    shown = visit.ask("show_topic", topic=name)
    begin = visit.text("from") or "newest"
    start = visit.text("at") if begin in ("offset", "time") else begin
    narrowed = {name: visit.text(name) for name in ("partition", "type", "key")}
    start = _moment(start) if begin == "time" else start
    call = visit.ask.call("browse", topic=name, from_=start, after=visit.place(), limit=PER_PAGE, **narrowed)
    found = browsed_records(call)
    records = [(each.record, preview(each)) for each in found.items]
    return PageView("topic.html", {"topic": shown, "records": records, "found": found, "begin": begin})


def record(visit: PageVisit) -> PageView:
    """Show one record: its position, its headers, its value as JSON, text or hex."""
    place = {"topic": _named(visit, "topic"), "partition": visit.text("partition")}
    offset = visit.text("offset") or "0"
    read = visit.ask("read", offset=offset, limit=1, **place)
    found = next((each for each in read.records if str(each.offset) == offset), None)
    if found is None:
        return PageView("record.html", {"record": None, "place": place, "offset": offset, "read": read}, 404)
    return PageView("record.html", {"record": found, **_value_shown(visit, found)})


def _value_shown(visit: PageVisit, found: RecordShown) -> dict[str, Any]:
    data = value_of(found)
    forms, wanted = forms_of(data), visit.text("as")
    form = wanted if wanted in forms else next(iter(forms))
    size = None if data is None else len(data)
    is_cut = size is not None and size > SHOWN_BYTES
    return {"forms": list(forms), "form": form, "text": forms[form], "size": size, "is_cut": is_cut}


def forms_of(data: bytes | None) -> dict[str, str]:
    """Return a value in every form that can show it, the most readable first."""
    if data is None:
        return {"none": ""}
    part, forms = data[:SHOWN_BYTES], dict[str, str]()
    if has_json(data):
        forms["json"] = indented(data)[:SHOWN_BYTES]
    if "\ufffd" not in (text := part.decode("utf-8", "replace")):
        forms["text"] = text
    return {**forms, "hex": hexed(data, SHOWN_BYTES // 16)}


def value_of(shown: RecordShown) -> bytes | None:
    """Return the bytes of a record's value."""
    if shown.value_base64 is not None:
        return b64decode(shown.value_base64)
    return None if shown.value is msgspec.UNSET else bytes(shown.value)


def preview(each: BrowsedRecord) -> str:
    """Return the beginning of a value, on one line."""
    if not each.has_value:
        return "(large; open it)"
    data = each.record.data
    if data is None:
        return "(no value)"
    text = data[:_PREVIEW].decode("utf-8", "replace")
    return text if text.count("\ufffd") < 3 else data[:48].hex(" ")


def _named(visit: PageVisit, name: str) -> str:
    found = visit.text(name)
    if found is None:
        raise InvalidInput(f"the address names no {'topic' if name == 'name' else name}")
    return found


def _moment(text: str | None) -> str | None:
    return f"{text}Z" if text and "Z" not in text and "+" not in text else text


def key(visit: PageVisit) -> PageView:
    """Show the history of a key."""
    name = visit.text("key")
    if name is None:
        return PageView("key.html", {"key": None})
    topic = visit.text("topic")
    course = visit.ask("show_key", key=name, topic=topic)
    answers = visit.ask("why", subject=name, topic=topic)
    return PageView("key.html", {"key": name, "course": course, "answers": answers})


def failures(visit: PageVisit) -> PageView:
    """Show the errors that dead letters died of, and the letters."""
    narrowed = {name: visit.text(name) for name in ("group", "topic", "type", "key", "error")}
    errors = visit.ask("list_errors", **{name: narrowed[name] for name in ("group", "topic", "type")})
    page = visit.ask("list_dead", after=visit.place(), limit=PER_PAGE, **narrowed)
    is_narrow = any(narrowed[name] for name in ("type", "key", "error"))
    return PageView("failures.html", {"errors": errors, "listing": page, "narrowed": narrowed, "is_narrow": is_narrow})


def letter(visit: PageVisit) -> PageView:
    """Show one dead letter with its record."""
    place = {name: visit.text(name) for name in ("group", "topic", "partition", "offset")}
    found = visit.ask("show_dead", **place)
    values = {"letter": found.letter, "record": found.record, "damage": found.damage}
    return PageView("letter.html", values | _value_shown(visit, found.record))


def download(visit: PageVisit) -> Response:
    """Return the raw value of a record as an attachment. Raises OffsetOutOfRange."""
    topic, partition = visit.text("topic") or "", visit.text("partition") or "0"
    offset = visit.text("offset") or "0"
    read = visit.ask("read", offset=offset, limit=1, max_bytes=1 << 26, topic=topic, partition=partition)
    found = next((each for each in read.records if str(each.offset) == offset), None)
    if found is None:
        raise OffsetOutOfRange(topic, int(partition), int(offset), read.start, read.end)
    name = f"{found.topic}-{found.partition}-{found.offset}.bin"  # a topic's name needs no quotes
    return Response(
        value_of(found) or b"",
        media_type="application/octet-stream",
        headers={"content-disposition": f'attachment; filename="{name}"'},
    )
