"""Topics, the records of one, and one record."""

from base64 import b64decode
from typing import Any

import msgspec

from penstock.errors import InvalidInput
from penstock.gateway.rest.records import browsed_records
from penstock.gateway.rest.shapes import RecordShown
from penstock.operate.browse import BrowsedRecord

from ..visit import PageView, PageVisit
from ..wording import hexed, indented

PER_PAGE = 50
SHOWN_BYTES = 64 * 1024  # of a value on a page; the download has all of it
_PREVIEW = 300


def topics(visit: PageVisit) -> PageView:
    """List the topics."""
    page = visit.ask("list_topics", after=visit.place(), limit=PER_PAGE)
    return PageView("topics.html", {"listing": page})


def topic(visit: PageVisit) -> PageView:
    """Show a topic with a page of its records."""
    name = _named(visit, "name")
    shown = visit.ask("show_topic", topic=name)
    begin = visit.text("from") or "newest"
    start = visit.text("at") if begin in ("offset", "time") else begin
    asked: dict[str, Any] = {"partition": visit.text("partition"), "type": visit.text("type")}
    found = browsed_records(
        visit.ask.call(
            "browse",
            topic=name,
            from_=_moment(start) if begin == "time" else start,
            key=visit.text("key"),
            after=visit.place(),
            limit=PER_PAGE,
            **asked,
        )
    )
    return PageView(
        "topic.html",
        {
            "topic": shown,
            "records": [(each.record, preview(each)) for each in found.items],
            "found": found,
            "begin": begin,
        },
    )


def record(visit: PageVisit) -> PageView:
    """Show one record: its position, its headers, its value as JSON, text or hex."""
    place = {"topic": _named(visit, "topic"), "partition": visit.text("partition")}
    offset = visit.text("offset") or "0"
    read = visit.ask("read", offset=offset, limit=1, **place)
    found = next((each for each in read.records if str(each.offset) == offset), None)
    if found is None:
        return PageView("record.html", {"record": None, "place": place, "offset": offset, "read": read}, 404)
    data = value_of(found)
    forms = forms_of(data)
    wanted = visit.text("as")
    form = wanted if wanted in forms else next(iter(forms))
    values = {"record": found, "size": None if data is None else len(data), "forms": list(forms)}
    values |= {"form": form, "text": forms[form], "is_cut": data is not None and len(data) > SHOWN_BYTES}
    return PageView("record.html", values)


def forms_of(data: bytes | None) -> dict[str, str]:
    """Return a value in every form that can show it, the most readable first."""
    if data is None:
        return {"none": ""}
    part, forms = data[:SHOWN_BYTES], dict[str, str]()
    try:
        msgspec.json.decode(data)
        forms["json"] = indented(data)[:SHOWN_BYTES]
    except (ValueError, RecursionError):
        pass
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
    """Return a time field's text, which has no zone, as a moment in UTC."""
    return f"{text}Z" if text and "Z" not in text and "+" not in text else text
