"""The page of words explains what it must, each word once, and says where the thing lives."""

import re
from collections import Counter

from penstock.delivery.wait_state import WaitState
from tests.docs.pages import PROJECT

PAGE = (PROJECT / "docs" / "reference" / "words.md").read_text("utf-8")
ROWS = re.findall(r"^\| ([^|]+?) \| ([^|]+?) \| ([^|]+?) \|$", PAGE, re.MULTILINE)
NEEDED = """
    append, attempt, audit, back-off, batch, bell, bell listener, bounds, client
    cursor, codec, content, context, copy, cursor, database, dead letter, delivery, dialect, discard,
    domain, done set, engine, entry, envelope, epoch, erase, event, fallback, fence, filter, group, hand
    out, handler, head, hold, identity, incarnation, key, key hash, kind, laboratory, lane, lane entry,
    lane name, lease, letter, limiter, listener, log, member, migration, move, neutral SQL, offset,
    operation, outbox, outcome, owner, owner tag, park, partition, partitioner, pass, pick, piece, pin,
    pipeline, point, position, producer, range, reconcile, record, relay, release, requeue, reset,
    retention, run, runner, scheduled, second form, sequence, sequencer, settle, settlement, slot, spill,
    stage, staged, standing, statement, store, subscription, suite, task, token, topic, trim, unit of
    work, verdict, visit, wanted, why, worker, world
"""


def words() -> list[str]:
    """Return the words that the page explains, in its order."""
    return [word for said, _, where in ROWS if where.startswith("[") for word in said.split(", ")]


def test_every_word_that_is_needed_is_explained() -> None:
    needed = {" ".join(each.split()) for each in NEEDED.split(",")}
    assert sorted(needed - set(words())) == []


def test_no_word_is_explained_twice() -> None:
    assert [word for word, count in Counter(words()).items() if count > 1] == []


def test_every_wait_state_is_explained() -> None:
    assert [each.value for each in WaitState if f"\n| {each.value} | " not in PAGE] == []


def test_every_row_says_where_the_thing_lives() -> None:
    rows = [row for row in ROWS if set("".join(row)) != {"-"} and row[2] != "lives in"]
    assert [said for said, _, where in rows if not re.fullmatch(r"\[[^]]+]\(.+\.py\)", where)] == []


def test_the_words_of_our_own_are_said_to_be() -> None:
    for word in ("lane", "slot", "fence", "head", "bell"):
        assert f"**{word}**" in PAGE
