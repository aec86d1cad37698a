"""Requests with a long list, one for every list that a request of the Kafka port has."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from penstock.wire.kafka.apis import APIS
from penstock.wire.kafka.layout import Api, ArrayOf, Field, FieldKind, Message, Scalar, StructOf, Text


class LongRequest(NamedTuple):
    """A request, and which of its lists is the long one."""

    api: Api
    version: int
    path: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.api.name}-{'.'.join(self.path)}"

    def message(self, count: int) -> Message:
        """Return it with so many elements."""
        return _filled(self.api.request, self.version, self.path, count)


def long_requests() -> Iterator[LongRequest]:
    """Yield a request for every list, in the newest version that has it."""
    for api in APIS.values():
        for path, version in _paths(api.request, api.versions[1]):
            yield LongRequest(api, version, path)


def _paths(fields: tuple[Field, ...], version: int) -> Iterator[tuple[tuple[str, ...], int]]:
    for field in fields:
        last = min(field.until, version)
        if isinstance(field.kind, ArrayOf) and last >= field.since:
            yield (field.name,), last
            if isinstance(field.kind.element, StructOf):
                for path, at in _paths(field.kind.element.fields, last):
                    yield (field.name, *path), at


def _filled(fields: tuple[Field, ...], version: int, path: tuple[str, ...], count: int) -> Message:
    said: Message = {}
    for field in fields:
        if not field.is_in(version) or field.name != path[0]:
            continue
        assert isinstance(field.kind, ArrayOf)
        element = field.kind.element
        if len(path) == 1:
            said[field.name] = [_element(element, version, number) for number in range(count)]
        else:
            assert isinstance(element, StructOf)
            said[field.name] = [_element(element, version, 0) | _filled(element.fields, version, path[1:], count)]
    return said


def _element(kind: FieldKind, version: int, number: int) -> Any:
    if isinstance(kind, StructOf):
        named = next((each for each in kind.fields if isinstance(each.kind, Text) and each.is_in(version)), None)
        counted = next((each for each in kind.fields if isinstance(each.kind, Scalar)), None)
        if named is not None:
            return {named.name: f"no topic {number}"}
        return {} if counted is None else {counted.name: number % 100}
    return number if isinstance(kind, Scalar) else f"no topic {number}"
