"""Django's admin on a store with dead letters, lanes and groups, as people use it; run inside a project."""

import logging
import re
from typing import Any
from unittest.mock import patch

from django.contrib.auth.models import Permission, User
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext

from penstock import Fixed, Outbox, Record
from penstock.database.database import Transaction
from penstock.django import database_url
from penstock.django.admin import PAGE_ROWS
from penstock.operate.audit import audit
from penstock.operate.dead import dead_letters

DEAD, LANES, GROUPS = "/admin/penstock/deadlist/", "/admin/penstock/lanelist/", "/admin/penstock/grouplist/"
LETTERS = PAGE_ROWS + 10


class Shop:
    """A store in which a group has given up all, and another waits."""

    def __init__(self) -> None:
        self.outbox, self.handled = Outbox(database_url()), list[int]()
        self.is_well = False

        def fails(record: Record) -> None:
            if not self.is_well:
                raise ValueError(f"<b>no</b> {record.value['n']}")
            self.handled.append(record.value["n"])

        self.outbox.handler("order.*", group="mailer", id="mailer", retry=Fixed(max_retries=0))(fails)
        self.outbox.handler("order.*", group="stock", id="stock", retry=Fixed(delay=3600))(fails)
        with transaction.atomic():
            for n in range(LETTERS):
                self.outbox.publish(connection, "order.placed", {"n": n}, key=f"k&{n}", headers={"by": "me"})
        self.outbox.drain()

    def dead(self) -> int:
        return len(dead_letters(self.outbox, group="mailer", limit=1000).items)


def client_of(name: str, *permissions: str) -> Client:
    """Return the browser of a person of the staff."""
    user = User.objects.create_user(name, is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(user)
    return client


def read(client: Client, address: str) -> str:
    answer: Any = client.get(address)
    assert answer.status_code == 200, (address, answer.status_code)
    text: str = answer.content.decode()
    return text


def rows(page: str) -> int:
    return page.count('<tr class="listed">')


def ticks(page: str) -> list[str]:
    return [
        each.replace("&quot;", '"').replace("&amp;", "&") for each in re.findall(r'name="letter" value="([^"]*)"', page)
    ]


def pages_are_read_and_bounded(shop: Shop) -> None:
    client = client_of("reader", "view_dead_letters", "view_lanes", "view_groups")
    assert "Dead letters" in read(client, "/admin/")
    first = read(client, DEAD)
    assert rows(first) == PAGE_ROWS
    assert first.count("&lt;b&gt;no&lt;/b&gt; ") == PAGE_ROWS
    assert "<b>no</b>" not in first
    assert ">requeue<" not in first
    following = re.search(r'id="following" href="([^"]*)"', first)
    assert following is not None
    rest = read(client, DEAD + following[1].replace("&amp;", "&"))
    assert (rows(rest), "following" in rest) == (LETTERS - PAGE_ROWS, False)
    assert rows(read(client, DEAD + "?key=k%263")) == 1
    assert '<li class="error">' in read(client, DEAD + "?group=nobody")
    assert "The place to go on from" in read(client, DEAD + "?after=%C3%A9")
    link = re.search(r'href="([^"]*deadlist/letter[^"]*)"', first)
    assert link is not None
    letter = read(client, link[1].replace("&amp;", "&"))
    assert "&quot;n&quot;: " in letter
    assert "by: me" in letter
    assert client.get(DEAD + "letter/?group=mailer").status_code == 400
    assert client.get(DEAD + "letter/?group=mailer&topic=events&partition=0&offset=99").status_code == 302
    lanes = read(client, LANES + "?group=stock")
    assert rows(lanes) == PAGE_ROWS
    assert "parked" in lanes
    groups = read(client, GROUPS)
    assert rows(groups) == 2
    assert 'deadlist/?group=mailer">dead letters</a>' in groups


def pages_do_not_ask_row_by_row(shop: Shop) -> None:
    """What Django asks is the session and the user; what we ask does not grow with the rows."""
    client = client_of("counter", "view_dead_letters")
    counts = []
    for address in (DEAD, DEAD + "?key=k%263"):
        with (
            CaptureQueriesContext(connection) as asked,
            patch.object(Transaction, "execute", autospec=True, side_effect=Transaction.execute) as ours,
        ):
            read(client, address)
        statements = [call.args[2] for call in ours.call_args_list]
        assert not [each for each in statements if "count" in each]
        counts.append((len(asked), statements))
    assert counts[0] == counts[1]


def nobody_passes_without_a_permission(shop: Shop) -> None:
    none, viewer = client_of("none"), client_of("viewer", "view_dead_letters", "discard_dead_letters")
    for address in (DEAD, LANES, GROUPS, DEAD + "letter/"):
        assert none.get(address).status_code == 403
        assert Client().get(address).status_code == 302  # to the login
    assert viewer.get(LANES).status_code == 403
    (tick, *_) = ticks(read(viewer, DEAD))
    given = {"decision": "requeue", "letter": tick, "confirmed": "yes"}
    assert viewer.post(DEAD + "decide/", given).status_code == 403
    assert none.post(DEAD + "decide/", given).status_code == 403
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(User.objects.get(username="viewer"))
    assert strict.post(DEAD + "decide/", {**given, "decision": "discard"}).status_code == 403
    assert shop.dead() == LETTERS


def a_decision_is_asked_for_then_done_and_audited(shop: Shop) -> None:
    client = client_of("boss", "view_dead_letters", "requeue_dead_letters", "discard_dead_letters")
    chosen = ticks(read(client, DEAD + "?group=mailer"))[:3]
    given = {"decision": "discard", "letter": chosen, "back": "group=mailer"}
    asked: Any = client.post(DEAD + "decide/", given)
    assert "Discard 3 dead letters?" in asked.content.decode()
    assert shop.dead() == LETTERS, "nothing is done before it is confirmed"
    assert ticks(asked.content.decode().replace('type="hidden" ', "")) == chosen
    done: Any = client.post(DEAD + "decide/", {**given, "confirmed": "yes"}, follow=True)
    assert done.redirect_chain[0][0] == DEAD + "?group=mailer"
    assert "3 of 3 dead letters discarded." in done.content.decode()
    assert shop.dead() == LETTERS - 3
    again: Any = client.post(DEAD + "decide/", {**given, "confirmed": "yes"}, follow=True)
    assert "0 of 3 dead letters discarded." in again.content.decode()

    some = ticks(read(client, DEAD))[:2]
    client.post(DEAD + "decide/", {"decision": "requeue", "letter": some, "confirmed": "yes"})
    shop.is_well = True
    shop.outbox.drain()
    assert (shop.dead(), len(shop.handled)) == (LETTERS - 5, 2)
    entries = audit(shop.outbox, limit=100).items
    assert {each.actor for each in entries} == {"boss"}
    assert [each.action for each in entries] == ["dead requeue"] * 2 + ["dead discard"] * 3

    wrong = [
        {"decision": "explode"},
        {"decision": "discard", "letter": "x"},
        {"decision": "discard", "letter": some * 30},
    ]
    for each in wrong:
        assert client.post(DEAD + "decide/", each).status_code == 400
    assert client.get(DEAD + "decide/").status_code == 400
    nothing: Any = client.post(DEAD + "decide/", {"decision": "discard"}, follow=True)
    assert "No dead letter was ticked." in nothing.content.decode()


STEPS = (
    pages_are_read_and_bounded,
    pages_do_not_ask_row_by_row,
    nobody_passes_without_a_permission,
    a_decision_is_asked_for_then_done_and_audited,
)


def main() -> None:
    from django.test.utils import setup_test_environment

    setup_test_environment()
    logging.disable()  # what fails on purpose
    shop = Shop()
    for step in STEPS:
        step(shop)
        print("passed", step.__name__, flush=True)
    shop.outbox.close()
