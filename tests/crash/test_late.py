"""A type published before the first worker that knows it, and two programs under one group name."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from penstock.delivery import store as delivery
from penstock.operate.catch_up import catch_up
from penstock.operate.store_doctor import examine_names
from tests.crash.children import Child
from tests.crash.store import Store
from tests.crash.waiting import wait_until

TOPIC = "eight"
KEYS = [f"k-{number}" for number in range(30)]
READY = {"ready": True}


def publish(store: Store, *types: str) -> None:
    """Publish an event of each type for every key."""
    with store.connection() as conn:
        for key in KEYS:
            for type in types:
                store.outbox.publish(conn, type, 1, key=key, topic=TOPIC)
        conn.commit()


def noted(store: Store) -> int:
    """Return in how many notes something is passed over."""
    return int(store.rows("SELECT count(*) FROM penstock_note")[0][0])


def is_settled(store: Store) -> bool:
    """Return whether nothing is staged, unread or waiting."""
    behind = (
        "SELECT count(*) FROM penstock_head h JOIN penstock_cursor c ON c.topic_id = h.topic_id "
        'AND c.partition = h.partition WHERE c."offset" < h.next_offset'
    )
    entries = "SELECT count(*) FROM penstock_lane_entry"
    return not store.waiting() and store.rows(behind) == store.rows(entries) == [(0,)]


def pass_over(store: Store) -> None:
    """Let a worker of the old version meet events that only the new one knows."""
    with Child("serve_types", url=store.url, types=["placed"]) as old:
        assert old.says() == READY
        publish(store, "placed", "refunded")
        wait_until(lambda: noted(store) and is_settled(store), "the old version is past everything")
        said = old.stop()
    assert {each["type"] for each in said if "type" in each} == {"placed"}
    assert any("has no handler for refunded" in each.get("warning", "") for each in said)


def handled(said: list[Any]) -> list[dict[str, Any]]:
    """Return what handlers were given."""
    return [each for each in said if "type" in each]


def test_a_type_published_before_the_first_worker_that_knows_it_is_delivered_late(store: Store) -> None:
    with Child("serve_types", url=store.url, types=["placed"]) as old:
        assert old.says() == READY
        publish(store, "placed", "refunded")
        wait_until(lambda: noted(store) and is_settled(store), "the old version is past everything")
        with Child("serve_types", url=store.url, types=["placed", "refunded"]) as new:
            wait_until(lambda: not noted(store) and is_settled(store), "the new version has caught up")
            old.stop()
            publish(store, "placed", "refunded")
            wait_until(lambda: is_settled(store), "everything is done")
            said = handled(new.stop())
    late = [each for each in said if each["late"]]
    assert Counter(each["key"] for each in late) == dict.fromkeys(KEYS, 1)
    assert {(each["type"], each["redelivered"]) for each in late} == {("refunded", False)}
    assert Counter(each["type"] for each in said if not each["late"]) == {"placed": 30, "refunded": 30}


@pytest.mark.slow
@pytest.mark.parametrize(
    "at",
    [
        (delivery.BEFORE_COMMIT, 2),  # some are handled
        (delivery.AFTER_TAKE, 1),  # notes are closed, not committed
        (delivery.BEFORE_COMMIT, 1),  # late records are entries, not committed
        (delivery.AFTER_SETTLE, 1),  # they are, and nobody knows
    ],
)
def test_a_worker_killed_while_it_catches_up_loses_nothing_and_doubles_nothing_unmarked(
    postgres_store: Store, at: tuple[str, int]
) -> None:
    store, (point, visit) = postgres_store, at
    pass_over(store)
    types = ["placed", "refunded"]
    with Child("serve_types", url=store.url, types=types, kill_at=point, visit=visit) as killed:
        first = handled(killed.said_until_killed())
    with Child("serve_types", url=store.url, types=types) as heir:
        wait_until(lambda: not noted(store) and is_settled(store), "the next one has caught up")
        second = handled(heir.stop())
    seen = {tuple(each["offset"]) for each in first}
    again = Counter(tuple(each["offset"]) for each in second)
    published = store.rows("SELECT partition, \"offset\" FROM penstock_log WHERE type = 'refunded'")
    assert seen | again.keys() == set(published)
    assert set(again.values()) <= {1}
    assert {(each["type"], each["late"]) for each in first + second} == {("refunded", True)}
    assert all(each["redelivered"] for each in second if tuple(each["offset"]) in seen)


def test_two_programs_under_one_group_name_are_told(store: Store) -> None:
    with Child("serve_types", url=store.url, types=["placed"]) as one:
        assert one.says() == READY
        with Child("serve_types", url=store.url, types=["user.made"]) as other:
            wait_until(lambda: len(examine_names(store.outbox)) == 1, "both are there")
            (finding,) = examine_names(store.outbox)
            said = other.stop()
        one.stop()
    assert finding.part == "Group app"
    assert "eight:placed" in finding.found
    assert "eight:user.made" in finding.found
    (warning,) = [each["warning"] for each in said if "nothing in common" in each.get("warning", "")]
    assert warning.startswith("group app is served here for eight:user.made, and by member ")
    assert warning.endswith("if they are two programs, give each a group name of its own")


def test_a_running_worker_delivers_what_a_person_asks_for(
    postgres_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_PROCESSING_CATCH_UP", "0")
    store = postgres_store
    pass_over(store)
    with Child("serve_types", url=store.url, types=["placed", "refunded"]) as new:
        assert new.says() == READY
        closed = "SELECT count(*) FROM penstock_note WHERE until_offset < 1000"
        wait_until(lambda: store.rows(closed) == [(noted(store),)], "it has all partitions")
        told = catch_up(store.outbox, "app", type="refunded")
        wait_until(lambda: not noted(store) and is_settled(store), "it has caught up")
        late = handled(new.stop())
    assert (told.types, told.records) == (("refunded",), len(KEYS))
    assert Counter((each["key"], each["late"], each["redelivered"]) for each in late) == {
        (key, True, False): 1 for key in KEYS
    }
