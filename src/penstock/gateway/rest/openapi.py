"""The description of all operations, as OpenAPI 3.1: made from the same rows that route them."""

from collections.abc import Sequence
from typing import Any

import msgspec

from ..problem import PROBLEM, Problem
from .operations import Operation

_REF = "#/components/schemas/{name}"
_INFO = {
    "title": "Penstock",
    "version": "1",
    "description": "The log, its groups and the operations on them. Times are RFC 3339.",
}


def described(operations: Sequence[Operation]) -> dict[str, Any]:
    """Return the description."""
    kinds = list(_kinds(operations))
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REF)
    by_kind = {id(kind): schema for kind, schema in zip(kinds, schemas, strict=True)}
    paths: dict[str, Any] = {}
    for each in operations:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, by_kind)
    return {"openapi": "3.1.0", "info": _INFO, "paths": paths, "components": {"schemas": components}}


def _kinds(operations: Sequence[Operation]) -> list[Any]:
    kinds = {id(Problem): Problem}
    for each in operations:
        for kind in (*each.takes.values(), *each.answers.values()):
            if kind is not None and not isinstance(kind, dict):
                kinds[id(kind)] = kind
    return list(kinds.values())


def _operation(operation: Operation, by_kind: dict[int, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {
        "operationId": operation.id,
        "summary": operation.summary,
        "tags": [operation.tag],
        "responses": {
            str(status): _answer(operation.media_type, status, kind, by_kind)
            for status, kind in operation.answers.items()
        }
        | {
            "default": {
                "description": "It could not be done.",
                "content": {PROBLEM: {"schema": by_kind[id(Problem)]}},
            }
        },
    }
    if operation.parameters:
        told["parameters"] = [each.schema() for each in operation.parameters]
    if operation.takes:
        told["requestBody"] = {
            "required": operation.needs_body,
            "content": {name: {"schema": _schema(kind, by_kind)} for name, kind in operation.takes.items()},
        }
    return told


def _answer(media_type: str, status: int, kind: Any, by_kind: dict[int, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {"description": "Done." if status < 300 else "Not done."}
    if kind is not None:
        told["content"] = {media_type: {"schema": _schema(kind, by_kind)}}
    return told


def _schema(kind: Any, by_kind: dict[int, Any]) -> Any:
    return kind if isinstance(kind, dict) else {} if kind is None else by_kind[id(kind)]
