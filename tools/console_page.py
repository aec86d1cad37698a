"""The reference page of the console: its pages, its acts and its other routes, as the site has them."""

from collections.abc import Callable, Iterator
from typing import Any

from penstock.console.acts import ACTS
from penstock.console.views import PAGES, ConsolePage
from tools.tables import table

OTHERS = {
    "act/{word}": "`GET` shows what an act would do; `POST` does it, or with the field `look` shows it",
    "unlock": "takes the token (`POST`), or asks for it",
    "lock": "`POST`: gives the right to act back",
    "value": "the value of a record, to be saved: `topic`, `partition`, `offset`",
    "static/{version}/{file}": "styles and scripts; the version changes with what they hold",
}


def console_page() -> Iterator[str]:
    """Yield the routes of the console."""
    yield "# The console's addresses"
    yield "How to use it: [the console](../how-to/console.md). Everything is below `/console/`."
    yield "## Pages"
    yield (
        "A letter goes there after `g`. A page with seconds looks again by itself, each time after so many; "
        "it can be paused."
    )
    yield table("page | letter | live | shows", (_page(each) for each in PAGES))
    yield "## Acts"
    yield "At `act/WORD`. Each needs `--allow-actions` and a token or a right, is shown first, and audited."
    yield table(
        "word | button | what it does",
        ((f"`{word}`", act.label, act.says or _said(act.plan)) for word, act in ACTS.items()),
    )
    yield "## Others"
    yield table("route | what it is", ((f"`{route}`", said) for route, said in OTHERS.items()))


def _page(page: ConsolePage) -> tuple[str, ...]:
    letter = f"`{page.letter}`" if page.letter else ""
    return f"`/{page.path}`", letter, f"{page.live_seconds} s" if page.live_seconds else "", _said(page.view)


def _said(function: Callable[..., Any]) -> str:
    said = (function.__doc__ or "").strip().splitlines()
    assert said, f"{function.__qualname__} does not say what it does"
    return said[0]
