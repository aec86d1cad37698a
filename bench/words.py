"""The two words that end a target line, and how they are kept out of every other line.

Invariant: in all output of the benchmarks each of the two stands only at the end of a target line, so that
`grep -c` counts verdicts and nothing else.
"""

import re

PASS = "PASS"
MISS = "MISS"
_EITHER = re.compile(f"{PASS}|{MISS}")


def verdict(passed: bool) -> str:
    """Return the word that ends a target line."""
    return PASS if passed else MISS


def plain(text: str) -> str:
    """Return text written by others (an error, a CPU's name) without either of the two words."""
    return _EITHER.sub(lambda found: found[0].lower(), text)


def one_line(text: str) -> str:
    """Return such text as one line."""
    return plain(" ".join(text.split()))


def check_name(name: str) -> str:
    """Return a name that may be printed. Raises ValueError for an empty one or one with a verdict in it."""
    if not name.strip() or _EITHER.search(name):
        raise ValueError(f"{name!r} is no name for a case, a variant or a target: empty, or has a verdict in it")
    return name


def number(value: float) -> str:
    """Return a measured number as a reader wants it: about three digits, no exponent."""
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    if size >= 10:
        return f"{value:.1f}"
    if size >= 0.1 or size == 0:
        return f"{value:.2f}"
    return f"{value:.4f}"
