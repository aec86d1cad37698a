"""Walking the chain of causes of an exception.

Follows the chain that a traceback shows: the cause if one was given, else the context unless `from None`
hides it, and the members of exception groups. Safe against cycles.
"""

from collections.abc import Iterable, Iterator

from penstock.redaction import ErrorText, behind, words

Matcher = type[BaseException] | str  # a class, or its dotted name


def chain(error: BaseException, how: ErrorText = ErrorText.FULL) -> Iterator[BaseException]:
    """Yield an error, then every error in its chain that may be shown, each once."""
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
    text = " <- ".join(reversed([words(each, how) for each in chain(error, how)]))
    return text if len(text) <= at_most else text[: at_most - 1] + "…"


def any_matches(matchers: Iterable[Matcher], errors: Iterable[BaseException]) -> bool:
    """Return whether one of the errors is an instance of one of the classes."""
    wanted = tuple(matchers)
    return any(_matches(matcher, error) for error in errors for matcher in wanted)


def _matches(matcher: Matcher, error: BaseException) -> bool:
    if isinstance(matcher, str):
        return any(matcher in (cls.__qualname__, f"{cls.__module__}.{cls.__qualname__}") for cls in type(error).__mro__)
    return isinstance(error, matcher)
