"""Edits the headers of requeued records: sets some, drops some, keeps the rest."""

from collections.abc import Collection

from penstock.errors import InvalidHeaders, Undecodable, shown
from penstock.model.limits import Headers, LimitsSettings, check_headers
from penstock.model.record import RawHeaders
from penstock.wire.kafka.headers import decode_headers, encode_headers


class HeaderEdit:
    """An edit of headers. Headers that cannot be decoded are replaced by the given ones."""

    def __init__(self, given: RawHeaders, dropped: frozenset[str]) -> None:
        self._given, self._gone = given, dropped | {name for name, _ in given}

    @property
    def names(self) -> list[str]:
        """The names of the changed headers, for the audit, which omits values because they may be secrets."""
        return sorted(self._gone)

    def __call__(self, headers: bytes | None) -> bytes | None:
        """Return the edited headers."""
        try:
            known = decode_headers(headers) if headers else ()
        except Undecodable:  # removing broken headers may be the purpose of the edit
            known = ()
        edited = (*(each for each in known if each[0] not in self._gone), *self._given)
        return encode_headers(edited) if edited else None


def edit_of(given: Headers | None, dropped: Collection[str]) -> HeaderEdit | None:
    """Return the edit; None if it changes nothing. Raises InvalidHeaders."""
    if isinstance(dropped, str) or not all(isinstance(each, str) for each in dropped):
        raise InvalidHeaders(dropped, f"drop_headers={shown(dropped)} must be a list of names")
    pairs = check_headers(given, LimitsSettings.load()) if given else ()
    names = {name for name, _ in pairs}
    both = sorted(names & set(dropped))
    if both:
        raise InvalidHeaders(both[0], "is both set and dropped; give only one of them")
    return HeaderEdit(pairs, frozenset(dropped)) if pairs or dropped else None
