"""Headers, marks of forms, names of hosts: what another site cannot make a browser do here."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.console.safety import HEADERS
from penstock.console.views import PAGES
from tests.console.conftest import fill
from tests.console.served import TOKEN, ServedConsole, mark_of

ANSWERS = [
    *(each.path for each in PAGES),
    "unlock",
    "no-such-page",
    "act/no-such-act",
    "act/requeue",
    "value",
    "static/x/no-such-file.js",
]
WRITES = ["act/requeue", "unlock", "lock"]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedConsole]:
    """Give a console that acts could be done on, to a visitor who has shown nothing."""
    url = f"sqlite:///{tmp_path_factory.mktemp('console')}/shop.db"
    fill(url)
    with ServedConsole(url, allow_actions=True, hosts=["console.example"]) as served:
        yield served


@pytest.mark.parametrize("path", ANSWERS)
def test_every_answer_has_the_headers(path: str, shown: ServedConsole) -> None:
    for found in (shown.get(path), shown.client.put(path)):
        assert {name: found.headers.get(name) for name in HEADERS} == HEADERS
        assert "access-control-allow-origin" not in found.headers


def test_the_policy_lets_nothing_run_but_files_of_the_site() -> None:
    policy = dict(each.split(maxsplit=1) for each in HEADERS["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["form-action"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"


def test_files_are_kept_by_browsers_and_pages_are_not(shown: ServedConsole) -> None:
    page = shown.get("").text
    file = page.partition('href="/console/static/')[2].partition('"')[0]
    found = shown.get(f"static/{file}")
    assert found.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert shown.get("").headers["cache-control"] == "no-store"


def test_no_page_refers_to_another_host(shown: ServedConsole) -> None:
    for each in PAGES:
        page = shown.get(each.path).text
        assert "//" not in page.replace("<!doctype", ""), each.path
        assert "<style" not in page
        assert "style=" not in page
        assert "onclick" not in page


@pytest.mark.parametrize("path", WRITES)
def test_a_form_without_the_mark_of_its_session_is_refused(path: str, shown: ServedConsole) -> None:
    other = shown.visitor()
    foreign = mark_of(other.get("unlock").text)
    shown.get("")
    for mark in ("", "0" * 64, foreign, "\u2028"):
        found = shown.client.post(path, data={"mark": mark, "token": TOKEN})
        assert (found.status_code, "form_unknown" in found.text) == (403, True)
    other.close()


@pytest.mark.parametrize("path", WRITES)
@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "cross-site", "origin": "null"},
        {"sec-fetch-site": "same-origin", "origin": "https://evil.example"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_a_form_of_another_site_is_refused(path: str, headers: dict[str, str], shown: ServedConsole) -> None:
    sent = {"mark": mark_of(shown.get("unlock").text), "token": TOKEN}
    assert shown.client.post(path, data=sent, headers=headers).status_code == 403


def test_a_visitor_without_cookies_can_do_nothing(shown: ServedConsole) -> None:
    mark = mark_of(shown.get("unlock").text)
    with shown.visitor() as other:
        assert other.post("unlock", data={"mark": mark, "token": TOKEN}).status_code == 403


def test_the_cookie_is_strict_and_scripts_do_not_see_it(shown: ServedConsole) -> None:
    with shown.visitor() as other:
        said = other.get("").headers["set-cookie"].lower()
    assert "samesite=strict" in said
    assert "httponly" in said


def test_a_session_that_is_unlocked_is_a_new_one(shown: ServedConsole) -> None:
    """Who has planted a cookie before does not know it after."""
    with shown.visitor() as other:
        other.get("")
        before = dict(other.cookies)
        shown.unlock(other)
        assert dict(other.cookies) != before
        assert "Actions on" in other.get("").text
        mark = mark_of(other.get("").text)
        assert other.post("lock", data={"mark": mark}).status_code == 303
        assert "Actions on" not in other.get("").text


@pytest.mark.parametrize("token", ["", "wrong", TOKEN[:-1], TOKEN + "x", "ü"])
def test_another_token_opens_nothing(token: str, shown: ServedConsole) -> None:
    with shown.visitor() as other:
        sent = {"mark": mark_of(other.get("unlock").text), "token": token}
        assert other.post("unlock", data=sent).status_code == 403
        assert "Actions on" not in other.get("").text


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("evil.example", 421),
        ("evil.example:8420", 421),
        ("127.0.0.1.evil.example", 421),
        ("[::1", 421),
        ("", 421),
        ("localhost", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:8420", 200),
        ("console.example", 200),
    ],
)
def test_only_names_of_this_machine_are_answered(host: str, status: int, shown: ServedConsole) -> None:
    """A page of another site may have its own name mean this machine: its scripts must read nothing."""
    assert shown.client.get("topics", headers={"host": host}).status_code == status


def test_a_form_that_is_too_large_or_of_another_kind_is_refused(shown: ServedConsole) -> None:
    assert shown.client.post("act/requeue", data={"x": "y" * 300_000}).status_code == 413
    assert shown.client.post("act/requeue", json={"x": 1}).status_code == 415
    assert shown.client.post("act/requeue", data={f"n{each}": "" for each in range(2000)}).status_code == 400


def test_the_token_is_on_no_page_and_in_no_log(shown: ServedConsole, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with shown.visitor() as other:
        pages = [other.get(path) for path in ANSWERS]
        shown.unlock(other)
        pages += [other.get(path) for path in ANSWERS]
        pages.append(other.get("key", params={"key": "x" * 2000}))
    said = "".join(f"{each.text}{each.headers}" for each in pages) + caplog.text
    assert "canary-5b1d" not in said


def test_a_password_of_the_store_is_on_no_page_and_in_no_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store is away, so that every page tells of an error."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr("tests.console.served.migrate", lambda database: None)
    with ServedConsole("postgresql://ana:canary-5b1d@127.0.0.1:1/shop") as served:
        served.store.database.timeout_seconds = 0.1
        pages = [served.get(path, name="x", key="x") for path in ("", "topics", "key", "topic", "failures")]
    assert {each.status_code for each in pages} == {503}
    assert "canary-5b1d" not in "".join(each.text for each in pages) + caplog.text
