"""Error texts for log lines and stored reasons, without values of payloads or rows.

Validation errors and those of database drivers quote the values that they refuse. Of these kinds, recognised
by class name so that no library is imported, only the type and the place are shown: the path of a field, the
name of a constraint. Other errors are shown in full. Our own errors on payloads (`Undecodable`,
`InvalidValue`) contain no values; their causes are not shown.
"""

import re
import sys
from collections.abc import Callable, Iterator
from enum import Enum
from itertools import islice
from typing import Any

from penstock.errors import InvalidValue, Undecodable

_WITHOUT_CAUSE = {"pydantic_core._pydantic_core.ValidationError", "msgspec.ValidationError"}
_MSGSPEC_PATH = re.compile(r" - at (.*)$", re.DOTALL)
_MSGSPEC_PLAIN = ("Expected `", "Object missing required field `")  # they name types alone
_DATA_EXCEPTION = "22"  # the class of SQLSTATEs whose first line, too, quotes a value
_FIELDS_SHOWN = 5
_ERRORS_SHOWN = 50  # of a chain, in a traceback: a loop of retries may have chained thousands
_UNSHOWABLE = "(its message cannot be shown)"


class ErrorText(Enum):
    """How much of an error is shown."""

    REDACTED = "redacted"  # everything except values of payloads and rows
    FULL = "full"  # everything, with every cause
    TYPE = "type"  # only the names of the classes


def words(error: BaseException, how: ErrorText = ErrorText.REDACTED) -> str:
    """Return an error's name and its permitted text."""
    message, name = text(error, how), type(error).__name__
    return f"{name}: {message}" if message else name


def text(error: BaseException, how: ErrorText = ErrorText.REDACTED) -> str:
    """Return an error's permitted text; a failing `__str__` must not hide the error."""
    if how is ErrorText.TYPE:
        return ""
    if how is ErrorText.REDACTED:
        known = known_text(error)
        if known is not None:
            return known
    try:
        return str(error)
    except Exception:
        return _UNSHOWABLE


def known_text(error: BaseException) -> str | None:
    """Return the text of an error of a kind that quotes values, without them; None for other kinds."""
    for cls in type(error).__mro__:
        redacted = _KINDS.get(f"{cls.__module__}.{cls.__qualname__}")
        if redacted is not None:
            try:
                return redacted(error)
            except Exception:  # an unknown version of the library
                return ""
    return None


def place(error: BaseException) -> str:
    """Return the permitted text of a decoding error: its place if known, else its type."""
    return known_text(error) or type(error).__name__


def named(error: BaseException) -> str:
    """Return the type of an error from foreign code that handled a payload, and its place if known."""
    return type(error).__name__ if known_text(error) is None else words(error)


def behind(error: BaseException, how: ErrorText = ErrorText.FULL) -> Iterator[BaseException]:
    """Yield the errors that a traceback shows with this one: members of a group, the cause or the context."""
    if isinstance(error, BaseExceptionGroup):
        yield from error.exceptions
    if how is not ErrorText.FULL and _is_about_payload(error):
        return
    if error.__cause__ is not None:
        yield error.__cause__
    elif error.__context__ is not None and not error.__suppress_context__:
        yield error.__context__


def chain(error: BaseException, how: ErrorText = ErrorText.FULL) -> Iterator[BaseException]:
    """Yield an error, then every error in its chain that may be shown, each once: cycles are possible."""
    waiting, seen = [error], {id(error)}
    while waiting:
        current = waiting.pop()
        yield current
        for each in behind(current, how):
            if id(each) not in seen:
                seen.add(id(each))
                waiting.append(each)


def reason(error: BaseException, at_most: int, how: ErrorText = ErrorText.REDACTED) -> str:
    """Return the whole chain as text, the root cause first, in at most `at_most` characters."""
    said = ""
    for each in reversed(list(chain(error, how))):
        said += f"{' <- ' if said else ''}{words(each, how)}"
        if len(said) > at_most:
            return said[: at_most - 1] + "…"
    return said


def traced(error: BaseException, how: ErrorText = ErrorText.REDACTED) -> BaseException:
    """Return an error for `exc_info=`: itself, or a stand-in with its name, traceback, causes and permitted texts.

    A stand-in shows the nearest of very many causes and says how many more there are.
    """
    first = list(islice(chain(error), _ERRORS_SHOWN + 1))
    as_it_is = how is ErrorText.FULL or (how is ErrorText.REDACTED and not any(map(_quotes, first)))
    return error if as_it_is and len(first) <= _ERRORS_SHOWN else _stand_in(error, how)


def _is_about_payload(error: BaseException) -> bool:
    """Return whether the causes of an error, such as a validator's own, may quote a payload."""
    if isinstance(error, Undecodable | InvalidValue):
        return True
    return any(f"{cls.__module__}.{cls.__qualname__}" in _WITHOUT_CAUSE for cls in type(error).__mro__)


def _quotes(error: BaseException) -> bool:
    """Return whether a traceback would show redacted text of this error, or a cause that is not shown."""
    return known_text(error) is not None or list(behind(error)) != list(behind(error, ErrorText.REDACTED))


def _stand_in(error: BaseException, how: ErrorText) -> BaseException:
    shown = _nearest(error, how)
    copies = _copies(shown, how)
    for each in shown:
        if how is ErrorText.FULL or not _is_about_payload(each):
            copy, cause, context = copies[id(each)], each.__cause__, each.__context__
            if cause is not None:
                copy.__cause__ = copies.get(id(cause))
            elif context is not None and not each.__suppress_context__:
                copy.__context__ = copies.get(id(context))
    left_out = sum(1 for _ in chain(error, how)) - len(shown)
    if left_out:
        copies[id(error)].add_note(f"({left_out} more errors behind it are left out)")
    return copies[id(error)]


def _nearest(error: BaseException, how: ErrorText) -> list[BaseException]:
    """Return an error and the errors closest behind it, as many as are shown."""
    found, seen = [error], {id(error)}
    for current in found:  # it grows meanwhile
        for each in behind(current, how):
            if id(each) not in seen and len(found) < _ERRORS_SHOWN:
                seen.add(id(each))
                found.append(each)
    return found


def _copies(shown: list[BaseException], how: ErrorText) -> dict[int, BaseException]:
    """Return a copy of each error by the error's id, without causes; the members of a group are made before it."""
    made, wanted, waiting = dict[int, BaseException](), {id(each) for each in shown}, list(shown)
    while waiting:
        current = waiting[-1]
        members = current.exceptions if isinstance(current, BaseExceptionGroup) else ()
        members = tuple(each for each in members if id(each) in wanted)
        not_made = [each for each in members if id(each) not in made]
        if not_made:
            waiting += not_made
            continue
        waiting.pop()
        if id(current) not in made:
            made[id(current)] = _copy(current, [made[id(each)] for each in members], how)
    return made


def _copy(error: BaseException, members: list[BaseException], how: ErrorText) -> BaseException:
    cls, message = type(error), text(error, how)
    names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__str__": lambda self: message}
    copy: BaseException
    if members:
        copy = type(cls.__name__, (BaseExceptionGroup,), names)("", members)
    else:
        copy = type(cls.__name__, (Exception,), names)()
    copy.__traceback__ = error.__traceback__
    if how is ErrorText.FULL or (how is ErrorText.REDACTED and known_text(error) is None):
        for note in getattr(error, "__notes__", ()):
            copy.add_note(note)
    return copy


def _pydantic(error: Any) -> str:
    """Return the path and the code of each invalid field; a path leaves out keys that are data."""
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    names = _declared_names()
    shown = list[str]()
    for each in problems[:_FIELDS_SHOWN]:
        parts = [str(part) if isinstance(part, int) or part in names else "…" for part in each["loc"]]
        shown.append(f"{'.'.join(['$', *parts])} ({each['type']})")
    more = len(problems) - _FIELDS_SHOWN
    return f"{error.title}: {', '.join(shown)}" + (f" and {more} more" if more > 0 else "")


def _declared_names() -> set[str]:
    """Return the fields of all pydantic models of this process, with their aliases, and the models' names."""
    names, waiting = set[str](), [sys.modules["pydantic"].BaseModel]
    while waiting:
        model = waiting.pop()
        waiting.extend(model.__subclasses__())
        names.add(model.__name__)
        for name, field in getattr(model, "model_fields", {}).items():
            given = (name, field.alias, field.validation_alias)
            names.update(each for each in given if isinstance(each, str))
    return names


def _msgspec(error: BaseException) -> str:
    """Return only the types and the path, which msgspec writes without keys of mappings."""
    message = str(error)
    if message.startswith(_MSGSPEC_PLAIN):
        return message
    path = _MSGSPEC_PATH.search(message)
    return f"at {path[1]}" if path and path[1].startswith(("`$", "`key`")) else ""


def _postgres(error: Any) -> str:
    """Return the first line, which names the constraint, and the SQLSTATE; not the DETAIL with the row."""
    diag = getattr(error, "diag", error)  # asyncpg has the fields on the error itself
    state = getattr(diag, "sqlstate", None)
    if state is None:
        return str(error).partition("\nDETAIL:")[0]  # the connection failed before any statement
    if state.startswith(_DATA_EXCEPTION):
        return f"SQLSTATE {state}"
    first = getattr(diag, "message_primary", None) or getattr(diag, "message", None)
    return f"{first} (SQLSTATE {state})" if first else f"SQLSTATE {state}"


_KINDS: dict[str, Callable[[Any], str]] = {
    "pydantic_core._pydantic_core.ValidationError": _pydantic,
    "msgspec.ValidationError": _msgspec,
    "msgspec.DecodeError": str,  # where the bytes are malformed, and how
    "json.decoder.JSONDecodeError": str,
    "google.protobuf.message.DecodeError": str,
    "google.protobuf.message.EncodeError": str,  # which field is missing
    "builtins.UnicodeDecodeError": lambda error: f"not {error.encoding} at byte {error.start}",
    "psycopg.Error": _postgres,
    "psycopg2.Error": _postgres,
    "asyncpg.exceptions._base.PostgresMessage": _postgres,
    "sqlalchemy.exc.StatementError": lambda error: "",  # it quotes the parameters; the driver's error is its cause
    # It may repeat the driver's text with parameters; then the cause is shown.
    "django.db.utils.Error": lambda error: "" if error.__cause__ is not None else str(error).partition("\n")[0],
    "jsonschema.exceptions.ValidationError": lambda error: f"{error.json_path} ({error.validator})",
    "marshmallow.exceptions.ValidationError": lambda error: "",
    "fastavro._validate_common.ValidationError": lambda error: "",
}
