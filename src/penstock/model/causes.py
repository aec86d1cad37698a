"""Walking an exception with all that caused it.

Follows what a traceback shows: the cause if one was given, else the context unless it was hidden with
`from None`, and the members of exception groups. Safe against cycles.
"""

from collections.abc import Iterable, Iterator

Matcher = type[BaseException] | str  # a class, or its dotted name


def chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, then everything behind it, each once."""
    waiting, seen = [error], {id(error)}
    while waiting:
        current = waiting.pop()
        yield current
        for behind in _behind(current):
            if id(behind) not in seen:
                seen.add(id(behind))
                waiting.append(behind)


def reason(error: BaseException, at_most: int) -> str:
    """Return the whole chain in words, the root cause first, within that many characters."""
    text = " <- ".join(reversed([_words(each) for each in chain(error)]))
    return text if len(text) <= at_most else text[: at_most - 1] + "…"


def any_matches(matchers: Iterable[Matcher], errors: Iterable[BaseException]) -> bool:
    """Return whether one of the errors is an instance of one of the classes."""
    wanted = tuple(matchers)
    return any(_matches(matcher, error) for error in errors for matcher in wanted)


def _words(error: BaseException) -> str:
    """Return an error's name and message; a message that cannot be made must not hide the error."""
    try:
        message = str(error)
    except Exception:
        message = "(its message cannot be shown)"
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _behind(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        yield from error.exceptions
    if error.__cause__ is not None:
        yield error.__cause__
    elif error.__context__ is not None and not error.__suppress_context__:
        yield error.__context__


def _matches(matcher: Matcher, error: BaseException) -> bool:
    if isinstance(matcher, str):
        return any(
            matcher in (cls.__qualname__, f"{cls.__module__}.{cls.__qualname__}")
            for cls in type(error).__mro__
        )
    return isinstance(error, matcher)
