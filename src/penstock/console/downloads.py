"""A value as a download: the browser saves it and never renders it."""

from starlette.responses import Response

from penstock.errors import OffsetOutOfRange

from .views.topics import value_of
from .visit import PageVisit


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
