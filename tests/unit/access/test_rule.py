"""Rules: which line is one, what it covers, and what a set of them says."""

import pytest

from penstock.access.resource import CLUSTER, AccessRight, group, topic
from penstock.access.rule import RuleSet, matches, parse_rule
from penstock.errors import InvalidRule

READ, WRITE, DESCRIBE, DELETE = AccessRight.READ, AccessRight.WRITE, AccessRight.DESCRIBE, AccessRight.DELETE

WRONG = [
    "",
    "permit ana read topic a",
    "allow ana read",
    "allow ana read topic",
    "allow ana read topic a b",
    "allow ana peek topic a",
    "allow ana read, topic a",
    "allow ana read shelf a",
    "allow ana read cluster kafka",
    "allow ana read topic *.eu",
    "allow a*a read topic a",
    "ALLOW ana read topic a",
]


def rules(*lines: str) -> RuleSet:
    return RuleSet(parse_rule(each, f"access.toml:{number}") for number, each in enumerate(lines, 1))


@pytest.mark.parametrize("line", WRONG)
def test_a_line_that_is_no_rule_is_refused_with_its_place(line: str) -> None:
    with pytest.raises(InvalidRule, match="file:3"):
        parse_rule(line, "file:3")


@pytest.mark.parametrize(
    "line",
    [
        "allow ana read,write topic orders.*",
        "deny * delete topic *",
        "allow ops * *",
        "allow ops describe,alter cluster",
        "allow anonymous read group g",
    ],
)
def test_a_rule_reads_as_it_was_written(line: str) -> None:
    assert set(str(parse_rule(line)).split()[2].split(",")) == set(line.split()[2].split(","))
    assert parse_rule(str(parse_rule(line))) == parse_rule(line)


def test_a_prefix_needs_its_star_and_case_counts() -> None:
    assert matches("pay", "pay")
    assert not matches("pay", "payments-secret")
    assert matches("pay*", "payments-secret")
    assert not matches("pay*", "Payments")
    assert matches("*", "")


def test_without_rules_everybody_may_do_everything() -> None:
    assert rules().verdict("anonymous", DELETE, topic("orders")).allowed


def test_once_a_rule_exists_what_no_rule_allows_is_denied() -> None:
    only = rules("allow ana read topic orders")
    assert only.verdict("ana", READ, topic("orders")).allowed
    for who, right, what in [
        ("ben", READ, topic("orders")),
        ("ana", WRITE, topic("orders")),
        ("ana", READ, topic("orders2")),
        ("ana", READ, group("orders")),
        ("ana", READ, CLUSTER),
    ]:
        assert not only.verdict(who, right, what).allowed


@pytest.mark.parametrize(
    "lines", [("allow * * *", "deny ana write topic x*"), ("deny ana write topic x*", "allow * * *")]
)
def test_deny_wins_wherever_it_stands(lines: tuple[str, str]) -> None:
    found = rules(*lines)
    assert not found.verdict("ana", WRITE, topic("x1")).allowed
    assert found.verdict("ana", WRITE, topic("y")).allowed
    assert found.verdict("ben", WRITE, topic("x1")).allowed


def test_who_may_write_may_describe_and_a_deny_of_writing_leaves_describing() -> None:
    found = rules("allow ana write topic a", "allow * describe topic b", "deny ana write topic b")
    assert found.verdict("ana", DESCRIBE, topic("a")).allowed
    assert found.verdict("ana", DESCRIBE, topic("b")).allowed


def test_a_verdict_names_the_rule_and_its_line() -> None:
    found = rules("allow * read topic *", "deny ana read topic secret*")
    verdict = found.verdict("ana", READ, topic("secrets"))
    assert verdict.why == "access.toml:2 denies it: deny ana read topic secret*"
    assert "access.toml:1 allows it" in found.verdict("ben", READ, topic("secrets")).why


def test_verdicts_are_kept_within_bounds_of_bytes() -> None:
    found = rules("allow * read topic *")
    for number in range(25_000):
        assert found.verdict("ana", READ, topic(f"{number:0>300}")).allowed
    assert 0 < found._kept.bytes <= 8 * 1024 * 1024
    kept = found._kept.bytes
    assert found.verdict("ana", READ, topic("x" * 1_000_000)).allowed
    assert found._kept.bytes == kept, "a name of any length is kept"


def test_names_are_not_kept_for_who_has_no_rule_about_them() -> None:
    found = rules("allow ana read topic *", "allow ben read topic pay*")
    for number in range(100):
        assert not found.verdict("ben", WRITE, topic(f"pay{number}")).allowed
        assert not found.verdict("eve", READ, topic(f"pay{number}")).allowed
    assert not found._kept.bytes
    assert found.verdict("ben", READ, topic("payments")).allowed


@pytest.mark.parametrize("word", ["a\0", "a\u200b", "\u202ea"])
def test_what_nobody_can_see_is_no_part_of_a_rule(word: str) -> None:
    for text in (f"deny {word} read topic x", f"deny a read topic {word}"):
        with pytest.raises(InvalidRule, match="seen"):
            parse_rule(text)
