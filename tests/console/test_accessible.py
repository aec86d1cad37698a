"""Nothing serious stands in the way of people who use a keyboard, a screen reader, or see little contrast."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.console.views import PAGES
from tests.console.axe import axe_source, stumbles
from tests.console.browser import browsing
from tests.console.served import ServedConsole

MORE = (
    "topic?name=events",
    "group?name=mailer",
    "key?key=dead-1",
    "failures?group=mailer",
    "act/pause-group?name=mailer",
)


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(theme: str, acting: ServedConsole, tmp_path: Path) -> None:
    source = axe_source(tmp_path)
    found: dict[str, list[str]] = {}
    with browsing(viewport={"width": 1280, "height": 900}, color_scheme=theme) as looking:
        for cookie in acting.client.cookies.jar:
            looking.page.context.add_cookies([{"name": cookie.name, "value": cookie.value, "url": acting.base}])
        for path in (*(each.path for each in PAGES if each.letter), *MORE):
            looking.open(f"{acting.base}/{path}")
            found[path] = stumbles(looking.page, source)
    assert {path: each for path, each in found.items() if each} == {}
