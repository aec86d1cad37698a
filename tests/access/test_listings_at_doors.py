"""Pages of listings over HTTP and gRPC, and their cursors, tell nothing of what who asks may not know of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from penstock import Outbox
from penstock.access.access import Access
from penstock.access.policy import AccessPolicy
from penstock.access.rule import parse_rule
from penstock.model.schedule import define
from penstock.operate.groups import create as create_group
from tests.access.test_hidden_and_absent import grpc_client
from tests.gateway.served import ServedRest

RULES = ("* group team*", "describe cluster", "* topic orders*")
SEEN, HIDDEN = ("orders", "orders-2"), ("nowhere", "payroll")
UNLOGGED = "salaries"  # a hidden topic that has no record yet
LISTINGS = (
    "/topics",
    "/groups",
    "/groups/team/partitions",
    "/dead",
    "/dead/errors",
    "/lanes",
    "/scheduled",
    "/scheduled?owner=anna",
    "/periodic",
    "/periodic/each-payroll",
)
DEAD = 'group_id, topic_id, partition, "offset", lane, whole, late, alone, holding, failures, reason, died_ms, id, type'
DEAD += ", timestamp_ms"
LANE = "group_id, topic_id, partition, lane, whole, late, alone, failures, due_ms, reason, state"
NOW = datetime.now(UTC)


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[ServedRest]:
    """Give a door of a store where everything is on topics that the caller may know of."""
    access = Access(AccessPolicy(rules=tuple(parse_rule(f"allow anonymous {each}") for each in RULES)))
    with ServedRest(f"sqlite:///{tmp_path}/store.db", access=access) as served:
        for number, topic in enumerate(SEEN):
            fill(served, topic, "team", 10 * number)
        yield served


def fill(rest: ServedRest, topic: str, group: str, place: int) -> None:
    """Add one of everything that is listed, on a topic; `place`: where it stands in orders other than by name."""
    rest.store.log.create_topic(topic, partitions=2)
    create_group(rest.store, group, topic, start="earliest")
    create_group(rest.store, "team", topic, start="earliest")
    with closing(Outbox(rest.store)) as outbox, outbox.transaction() as conn:
        outbox.publish(conn, "paid", {}, key="k", topic=topic, owner="anna", at=NOW + timedelta(days=1, hours=place))
        ((of,),) = conn.execute("SELECT id FROM penstock_topic WHERE name = ?", [topic]).fetchall()
        dead = (1, of, 0, 0, "k", 0, 0, -1, 1, 1, "broken", 1000 + place, topic, "paid", 1)
        conn.execute(f"INSERT INTO penstock_dead ({DEAD}) VALUES (?{',?' * 14})", dead)
        lane = (1, of, 0, "k", 0, 0, -1, 1, 0, "broken", "held")
        conn.execute(f"INSERT INTO penstock_lane ({LANE}) VALUES (?{',?' * 10})", lane)
        text = define("s", 3600, timezone=None, catch_up="last", type="paid", topic=topic).encode()
        columns = "(name, definition, since_ms, next_ms)"
        conn.execute(f"INSERT INTO penstock_periodic {columns} VALUES (?, ?, 1, 1)", [f"each-{topic}", text])


def listed(rest: ServedRest) -> dict[str, list[bytes]]:
    """Return every page of every listing, one thing to a page."""
    found: dict[str, list[bytes]] = {}
    for path in LISTINGS:
        after: str | None = ""
        while after is not None:
            given = {"limit": "1"} if "{" not in path and not path.endswith(("errors", "payroll")) else {}
            url = rest.client.build_request("GET", path).url.copy_merge_params(
                given | ({"after": after} if after else {})
            )
            answer = rest.client.get(url)
            found.setdefault(path, []).append(answer.content)
            after = answer.json().get("after")
    return found


def listed_over_grpc(rest: ServedRest) -> list[str]:
    with grpc_client(rest) as client:
        found = []
        for method in ("Topics.List", "Groups.List"):
            after: str | None = ""
            while after is not None:
                answer = client(method, limit=1, **({"after": after} if after else {}))
                found.append(str(answer))
                after = answer.after or None
        return found


def test_pages_and_cursors_tell_nothing_of_what_is_hidden(rest: ServedRest) -> None:
    before, over_grpc = listed(rest), listed_over_grpc(rest)
    assert {path: len(pages) for path, pages in before.items() if len(pages) != 2} == {
        "/groups": 1,
        "/groups/team/partitions": 4,
        "/dead/errors": 1,
        "/periodic/each-payroll": 1,
    }
    for number, topic in enumerate(HIDDEN):
        fill(rest, topic, f"hidden-{number}", 5 + 10 * number)
    with closing(Outbox(rest.store)) as outbox, outbox.transaction() as conn:
        for hours in (1, 6, 12, 24):
            outbox.publish(conn, "paid", {}, topic=UNLOGGED, owner="anna", at=timedelta(days=1, hours=hours))
    for path, pages in listed(rest).items():
        assert pages == before[path], path
    assert listed_over_grpc(rest) == over_grpc


def test_a_hidden_schedule_is_changed_as_a_missing_one_is(rest: ServedRest) -> None:
    rest.api.access.install(
        AccessPolicy(rules=tuple(parse_rule(f"allow anonymous {each}") for each in (*RULES, "* cluster")))
    )
    fill(rest, "payroll", "hidden", 5)
    for word in ("pause", "resume", "run"):
        answers = [rest.client.post(f"/periodic/each-{name}/{word}") for name in ("payroll", "nothing")]
        assert answers[0].content.replace(b"payroll", b"nothing") == answers[1].content
    answers = [rest.client.delete(f"/periodic/each-{name}") for name in ("payroll", "nothing")]
    assert [each.status_code for each in answers] == [404, 404]
