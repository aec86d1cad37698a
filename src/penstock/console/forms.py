"""Reads the form of a page: URL-encoded, bounded in bytes and fields."""

from urllib.parse import parse_qsl

from starlette.datastructures import ImmutableMultiDict
from starlette.requests import Request

from penstock.errors import BodyTooLarge, InvalidInput, UnsupportedBody
from penstock.gateway.rest.bodies import body_of
from penstock.gateway.settings import GatewaySettings

MOST_BYTES = 256 * 1024
_MOST_FIELDS = 1000
_KIND = "application/x-www-form-urlencoded"


async def read_form(request: Request) -> ImmutableMultiDict[str, str]:
    """Return the fields of a form. Raises BodyTooLarge, BodyLate, UnsupportedBody, InvalidInput."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _KIND:
        raise UnsupportedBody("content type", kind, _KIND)
    announced = request.headers.get("content-length", "0")
    if not announced.isdecimal() or int(announced) > MOST_BYTES:
        raise BodyTooLarge(MOST_BYTES)
    body = await body_of(request, GatewaySettings(body_bytes=MOST_BYTES))
    try:
        fields = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError as exc:
        raise InvalidInput("the form cannot be read") from exc
    return ImmutableMultiDict(fields)
