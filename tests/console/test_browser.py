"""The console in a browser: hostile data runs nothing, pages are live and can be paused, keys work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from html import unescape
from urllib.parse import urlencode

import pytest

from penstock import Cancel, Outbox, Record
from penstock.clock import SYSTEM
from penstock.console.views import PAGES
from penstock.operate.groups import pause, resume
from tests.console.browser import Looking, browsing
from tests.console.conftest import fill
from tests.console.hostile import HOSTILE
from tests.console.served import TOKEN, ServedConsole


@pytest.fixture(scope="module")
def looking() -> Iterator[Looking]:
    """Give one page of a browser to all tests here: starting it takes long."""
    with browsing(viewport={"width": 1280, "height": 900}) as opened:
        yield opened


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedConsole]:
    """Give a console that can act."""
    url = f"sqlite:///{tmp_path_factory.mktemp('console')}/shop.db"
    fill(url)
    with ServedConsole(url, allow_actions=True) as served:
        yield served


@pytest.fixture(autouse=True)
def nothing_to_complain_of(looking: Looking) -> Iterator[None]:
    """See that no page asked, complained, or fetched anything from elsewhere."""
    looking.complaints.clear()
    yield
    assert looking.complaints == []


def test_fifty_hostile_texts_run_nothing(looking: Looking, tmp_path_factory: pytest.TempPathFactory) -> None:
    """As keys, types, values, headers, reasons, names of groups, actors and what is typed into an address."""
    assert len(set(HOSTILE)) == 50
    url = f"sqlite:///{tmp_path_factory.mktemp('hostile')}/shop.db"
    groups = [f"g{number} {text}"[:255] for number, text in enumerate(HOSTILE) if text.isprintable()][:6]
    with closing(Outbox(url)) as outbox:
        outbox.migrate()
        for number, name in enumerate(groups):
            outbox.handler(group=name, id=f"refuse-{number}")(_refuse)
        with outbox.transaction() as conn:
            for number, text in enumerate(HOSTILE):
                key = text if text.isprintable() else None
                outbox.publish(conn, f"hostile.{number}", {text: text}, key=key, headers={"x-hostile": text})
        outbox.drain()
        now_ms = SYSTEM.now_ms()
        raw = [Record(f"raw-{n}", text, text.encode(), "hostile.raw", (), now_ms) for n, text in enumerate(HOSTILE)]
        outbox.log.append("events", raw)  # as clients of the log may, whose keys are any bytes
        outbox.drain()
        for text in HOSTILE:
            pause(outbox, groups[0], actor=text)
            resume(outbox, groups[0], actor=text)
    with ServedConsole(url, allow_actions=True) as served:
        looks: list[tuple[str, dict[str, str]]] = [(each.path, {}) for each in PAGES if each.letter]
        looks += [("topic", {"name": "events"}), ("group", {"name": groups[1]})]
        looks += [("key", {"key": text}) for text in HOSTILE[::5]]
        looks += [("failures", {"error": text, "key": text}) for text in HOSTILE[1::10]]
        looks += [("topic", {"name": text, "type": text}) for text in HOSTILE[2::10]]
        found = served.client.get("failures", params={"group": groups[2]}).text
        letters = [unescape(each.partition('"')[0]) for each in found.split("letter?")[1:12]]
        looks += [(f"letter?{each}", {}) for each in letters]
        looking.complaints.clear()
        for path, query in looks:
            looking.open(f"{served.base}/{path}{'?' + urlencode(query) if query else ''}")
            assert looking.page.evaluate("window.owned") is None, (path, query)
            assert looking.page.url.startswith(served.base)
        expected = [each for each in looking.complaints if "status of 40" not in each]  # pages that are not there
        looking.complaints[:] = expected
        looking.open(f"{served.base}/topic?name=events")
        assert HOSTILE[0] in looking.page.inner_text("main")
    looking.open("about:blank")


def _refuse(record: Record) -> Cancel:
    return Cancel(f"refused {record.key}")


def test_every_page_is_shown_without_a_complaint(looking: Looking, shop: ServedConsole) -> None:
    for each in PAGES:
        if each.letter:
            looking.open(f"{shop.base}/{each.path}")
            looking.page.wait_for_selector("h1")
            width = looking.page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert width <= 0, each.path


def test_the_overview_is_live_until_it_is_paused(looking: Looking, shop: ServedConsole) -> None:
    page = looking.page
    looking.open(f"{shop.base}/")
    with page.expect_response(lambda each: each.request.headers.get("x-live") == "1"):
        pass
    page.keyboard.press("p")
    assert page.get_attribute("[data-live-toggle]", "aria-pressed") == "false"
    assert page.inner_text("[data-live-word]") == "Paused"
    page.keyboard.press("p")
    with page.expect_response(lambda each: each.request.headers.get("x-live") == "1"):
        pass


def test_rows_do_not_move_while_they_are_read(looking: Looking, shop: ServedConsole) -> None:
    page = looking.page
    looking.open(f"{shop.base}/topic?name=events")
    before = page.inner_text("#records tbody")
    with closing(Outbox(shop.store)) as outbox:
        with outbox.transaction() as conn:
            outbox.publish(conn, "order.placed", {"of": "newer"}, key="newer")
        outbox.drain()
    page.wait_for_selector(".fresh")
    assert page.inner_text("#records tbody") == before
    page.click(".fresh")
    page.wait_for_selector("#records tbody tr:first-child >> text=newer")


def test_keys_go_everywhere(looking: Looking, shop: ServedConsole) -> None:
    page = looking.page
    looking.open(f"{shop.base}/")
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.wait_for_url("**/topics")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/topic?name=events")
    page.keyboard.press("/")
    page.keyboard.type("a-1")
    page.keyboard.press("Enter")
    page.wait_for_url("**/key?key=a-1")
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog[open]", state="detached")


def test_the_theme_is_kept_in_the_browser(looking: Looking, shop: ServedConsole) -> None:
    page = looking.page
    looking.open(f"{shop.base}/topics")
    seen = []
    for _ in range(3):
        page.click("[data-theme-toggle]")
        page.reload()
        seen.append(page.evaluate("document.documentElement.dataset.theme ?? ''"))
    assert seen == ["light", "dark", ""]


def test_a_letter_is_picked_looked_at_and_discarded(looking: Looking, shop: ServedConsole) -> None:
    page = looking.page
    looking.open(f"{shop.base}/unlock")
    page.fill("input[name=token]", TOKEN)
    page.click("main button")
    page.wait_for_selector("text=Actions on")
    looking.open(f"{shop.base}/failures?group=mailer")
    page.keyboard.press("j")
    page.keyboard.press("x")
    assert page.inner_text("[data-picked]") == "1 picked"
    page.click("text=Discard picked…")
    page.wait_for_selector("text=Discard 1 dead letter?")
    page.click("main button.harsh")
    page.wait_for_selector("text=1 dead letter discarded")
    assert page.locator("tbody tr").count() == 2


def test_a_phone_shows_every_page_in_its_width(shop: ServedConsole, looking: Looking) -> None:
    page = looking.page
    page.set_viewport_size({"width": 390, "height": 800})
    try:
        for path in ("", "partitions", "topic?name=events", "failures", "key?key=dead-1", "group?name=mailer"):
            looking.open(f"{shop.base}/{path}")
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, path
    finally:
        page.set_viewport_size({"width": 1280, "height": 900})
