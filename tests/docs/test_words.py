"""The glossary is short, explains what a newcomer meets, each word once, and links the module it lives in."""

import re
from collections import Counter
from collections.abc import Iterator

import pytest

from penstock.delivery.lane import WaitState
from tests.architecture.source import assert_none
from tests.docs.pages import PROJECT

PAGE = (PROJECT / "docs" / "reference" / "words.md").read_text("utf-8")
MOST = 60
NEEDED = """
    bell, broker, cursor, dead letter, dialect, epoch, event, fence, filter, flood, gateway, group, hand out,
    handler, head, header, incarnation, key, lake, lane, late, lease, log, mark, member, move, offset, outbox,
    outcome, owner, owner tag, park, partition, pipeline, principal, record, redelivered, rejected, requeue,
    retention, schedule, scheduled, segment, sequencer, settlement, sink, slot, staged, store, token,
    tombstone, topic, type, unit of work, wait state, why, worker
"""
OUR_OWN = ("lane", "slot", "fence", "head", "bell")
_ROW = re.compile(r"^\| ([^|]+?) \| ([^|]+?) \| (\[[^|]+?) \|$", re.MULTILINE)


def breaches(page: str) -> Iterator[str]:
    """Yield one sentence for each way in which a page is no short glossary."""
    rows = _ROW.findall(page)
    words = Counter(word for word, _, _ in rows)
    if len(words) > MOST:
        yield f"the page explains {len(words)} words, more than {MOST}"
    needed = {" ".join(each.split()) for each in NEEDED.split(",")}
    yield from (f"the page does not explain '{word}'" for word in sorted(needed - words.keys()))
    yield from (f"the page explains '{word}' twice" for word, count in words.items() if count > 1)
    for word, meaning, where in rows:
        if not re.fullmatch(r"\[([^]]+)]\(\.\./\.\./src/penstock/\1\)", where):
            yield f"'{word}' does not link its module: {where}"
        if not meaning.endswith(".") or ". " in meaning:
            yield f"'{word}' is not explained by one sentence: {meaning}"


def test_the_glossary_keeps_the_rules() -> None:
    assert_none(breaches(PAGE))


def test_every_wait_state_is_explained() -> None:
    (said,) = (meaning for word, meaning, _ in _ROW.findall(PAGE) if word == "wait state")
    assert [each.value for each in WaitState if each.value not in re.findall(r"\w+", said)] == []


def test_the_words_of_our_own_are_said_to_be() -> None:
    assert [word for word in OUR_OWN if f"**{word}**" not in PAGE] == []


def a_row(word: str = "new", meaning: str = "A word.", where: str = "[a.py](../../src/penstock/a.py)") -> str:
    return f"| {word} | {meaning} | {where} |\n"


@pytest.mark.parametrize(
    ("planted", "words"),
    [
        (a_row("lane"), "explains 'lane' twice"),
        (a_row(meaning="A word. And another sentence."), "by one sentence"),
        (a_row(meaning="no sentence"), "by one sentence"),
        (a_row(where="[a.py](../../src/penstock/b.py)"), "does not link its module"),
        ("".join(a_row(f"word{number}") for number in range(MOST)), "more than 60"),
    ],
)
def test_a_planted_breach_is_found(planted: str, words: str) -> None:
    (found,) = breaches(PAGE + planted)
    assert words in found


def test_a_word_that_is_missing_is_found() -> None:
    lane = re.compile(r"^\| lane \|.*\n", re.MULTILINE)
    assert list(breaches(lane.sub("", PAGE))) == ["the page does not explain 'lane'"]
