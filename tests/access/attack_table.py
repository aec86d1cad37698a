"""The attacks, each with its right outcome; what they try is a method of a door (`doors.py`).

`python -m tests.access.attack_table` writes them as a table, an attack a row, a door a column; the tests run
every cell of it.
"""

import hashlib
import hmac
import json
from base64 import urlsafe_b64encode
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from penstock.clock import SYSTEM
from tests.access.doors import DOORS, FORBIDDEN, IN, INVALID, LARGE, ONCE, OUT, REFUSED
from tests.access.hogs import SERVED
from tests.access.house import OTHER_RSA, PASSWORD, TOKEN, House, public_pem, token
from tests.access.proofs import ALIKE, SLOWED

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "attacks.md"
ENDED, BOUNDED = "ended in time", "memory is bounded"
EACH_BOUNDED = "body_bytes for each stream"
DOOR_FULL = "this door alone is full"
SLOW = ("half_open", "silent", "trickling")  # they take long, so they run together


class Attack(NamedTuple):
    """What is tried at a door, and the right outcome."""

    name: str
    right: str
    kind: str  # the method of a door
    given: Callable[[House], tuple[str, ...]] = lambda house: ()


def shows(name: str, make: Callable[[], str], right: str = OUT) -> Attack:
    return Attack(name, right, "bearer", lambda house: (make(),))


def _made(name: str, house: House) -> tuple[str, ...]:
    """A topic of a name that could be another file; even who may make every topic cannot."""
    return token(sub="ops"), name


def stolen(house: House) -> str:
    """Return what a file keeps of a password."""
    return house.users["ben"].split('"')[1]


def now() -> int:
    return SYSTEM.now_ms() // 1000


def unsigned(algorithm: str) -> str:
    """Return a token that says that it needs no signature."""

    def part(value: Any) -> str:
        return urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    claims = {"sub": "ana", "aud": "penstock", "iss": "https://login.example", "exp": now() + 600}
    return f"{part({'alg': algorithm, 'typ': 'JWT'})}.{part(claims)}."


def confused() -> str:
    """Return a token signed with the public key as if it were a secret."""

    def part(data: bytes) -> str:
        return urlsafe_b64encode(data).rstrip(b"=").decode()

    claims = {"sub": "ops", "aud": "penstock", "iss": "https://login.example", "exp": now() + 600}
    said = f"{part(json.dumps({'alg': 'HS256', 'kid': 'k1'}).encode())}.{part(json.dumps(claims).encode())}"
    return f"{said}.{part(hmac.digest(public_pem(), said.encode(), hashlib.sha256))}"


TRAVERSALS = [
    "../../etc/passwd",
    "orders/../../x",
    "..",
    ".",
    "orders\0x",
    "orders\\x",
    "o" * 250,
    "orders\n",
    "órders",
    "orders\r\nset-cookie: a=b",
]


PROOFS = [
    Attack("a certificate that was revoked", OUT, "revoked"),
    Attack("a token of a key that the URL of the access file gives", IN, "keys_by_url"),
    Attack("a token of a key on another host, to which that URL leads", OUT, "keys_elsewhere"),
    Attack("a token of a key that was withdrawn there", OUT, "keys_withdrawn"),
    Attack("SCRAM with a name that nobody has, beside one that somebody has", ALIKE, "scram_names"),
    Attack("a tenant's limit, used up by another of its principals", SLOWED, "tenant"),
]


ATTACKS = [
    Attack("nothing is shown", OUT, "nothing"),
    shows("a token that holds", token, IN),
    shows("a static token that holds", lambda: TOKEN, IN),
    Attack("a password that holds", IN, "basic", lambda house: ("ana", PASSWORD)),
    Attack("a certificate that holds", IN, "certificate", lambda house: ("ana",)),
    shows("no token", lambda: ""),
    shows("a static token with a letter more", lambda: TOKEN + "x"),
    shows("algorithm none", lambda: unsigned("none")),
    shows("algorithm NoNe", lambda: unsigned("NoNe")),
    shows("the public key as a secret", confused),
    shows("another algorithm of the same key", lambda: token(algorithm="RS512")),
    shows("signed by another key", lambda: token(OTHER_RSA)),
    shows("its signature taken off", lambda: token().rpartition(".")[0] + "."),
    shows("expired", lambda: token(exp=now() - 120, iat=now() - 600)),
    shows("not yet valid", lambda: token(nbf=now() + 600)),
    shows("without an end", lambda: token(exp=None)),
    shows("that lives for ever", lambda: token(exp=10**12)),
    shows("an end that is no time", lambda: token(exp=1e300)),
    shows("for another audience", lambda: token(aud="billing")),
    shows("without an audience", lambda: token(aud=None)),
    shows("of another issuer", lambda: token(iss="https://evil.example")),
    shows("with a critical extension", lambda: token(head={"crit": ["exp2"], "exp2": 1})),
    shows("a key id that is a path", lambda: token(OTHER_RSA, head={"kid": "../../../dev/null"})),
    shows("a key id that is SQL", lambda: token(OTHER_RSA, head={"kid": "k1' OR '1'='1"})),
    shows("a key of its own", lambda: token(OTHER_RSA, head={"jku": "http://127.0.0.1:1/jwks.json"})),
    shows("a line feed in the name", lambda: token(sub="ana\nops")),
    shows("the name of nobody", lambda: token(sub="anonymous")),
    shows("a star as name", lambda: token(sub="*")),
    shows("no name", lambda: token(sub=None)),
    shows("very long", lambda: token(padding="x" * 9000)),
    shows("not a token at all", lambda: "a.b.c"),
    Attack("a wrong password", OUT, "basic", lambda house: ("ops", "wrong")),
    Attack("no password", OUT, "basic", lambda house: ("ops", "")),
    Attack("a name that nobody has", OUT, "basic", lambda house: ("nobody", PASSWORD)),
    Attack("a name that is SQL", OUT, "basic", lambda house: ("ana' --", PASSWORD)),
    Attack("a very long password", OUT, "basic", lambda house: ("ben", "x" * 5000)),
    Attack("the hash as a password", OUT, "basic", lambda house: ("ben", stolen(house))),
    Attack("plaintext where TLS is spoken", OUT, "plaintext"),
    Attack("a version of TLS that is too old", OUT, "old_tls"),
    Attack("an own topic", IN, "topic", lambda house: (token(), "orders")),
    Attack("a foreign topic", FORBIDDEN, "topic", lambda house: (token(), "payroll")),
    Attack("a topic that is not there", FORBIDDEN, "topic", lambda house: (token(), "payroll-2")),
    Attack("a topic in other case", FORBIDDEN, "topic", lambda house: (token(), "ORDERS")),
    Attack("an own group", IN, "group", lambda house: (token(), "orders-billing")),
    Attack("a foreign group", FORBIDDEN, "group", lambda house: (token(), "payroll")),
    Attack("a foreign topic made", FORBIDDEN, "create", lambda house: (token(), "payroll-3")),
    *(Attack(f"a topic called {name[:24]!r}", INVALID, "create", partial(_made, name)) for name in TRAVERSALS),
    Attack("a gigabyte announced by nobody", OUT, "announced"),
    Attack("a gigabyte announced by somebody", LARGE, "too_large"),
    Attack("a few bytes that unpack to very many", LARGE, "bomb"),
    Attack("what was heard on another connection", OUT, "replayed"),
    Attack("a request with a token sent twice", ONCE, "twice"),
    Attack("other bytes under a token, or under sequences, that were taken", REFUSED, "reused"),
    Attack("a request that names very many things", SERVED, "long_list"),
    Attack("a host name that resolves to this machine (DNS rebinding)", REFUSED, "rebound"),
    Attack("a TLS handshake that never ends", ENDED, "half_open"),
    Attack("a connection that says nothing", ENDED, "silent"),
    Attack("a request a byte at a time", ENDED, "trickling"),
    Attack("silent connections, more than are admitted", SERVED, "crowd"),
    Attack("all connections, or calls, of one principal", SERVED, "hog_connections"),
    Attack("all groups of one principal", SERVED, "hog_groups"),
    Attack("all streams of one principal", SERVED, "hog_streams"),
    Attack("parts of large requests, until no bytes are left", SERVED, "hog_bytes"),
    Attack("a wrong password again and again, then another's right one", SERVED, "retried"),
    Attack("passwords sprayed over many names, then a right one", SERVED, "sprayed"),
    *PROOFS,
]


class Elsewhere(NamedTuple):
    """An attack that a test of its own tries, and how it ends there: doors, and the test at each."""

    name: str
    right: str
    tests: dict[str, str]


def at(doors: str, test: str) -> dict[str, str]:
    return dict.fromkeys(doors.split(), test)


_QUIET = "tests/gateway/test_ending_quietly.py::"
_FORGED = "tests/access/test_forged_lines.py::"
_HIDDEN = "tests/access/test_hidden_and_absent.py::"
_LOCKED = "tests/kafka/test_locked_partition.py::"
_GRPC = "tests/gateway/test_grpc_hostile.py::"
EVERY = "kafka http grpc tinyq"
ELSEWHERE = [
    Elsewhere(
        "another's transaction, joined by its producer id",
        REFUSED,
        at(
            "kafka",
            "tests/access/test_foreign_transactions.py::"
            "test_a_writer_without_the_right_does_not_enter_anothers_transaction",
        ),
    ),
    Elsewhere(
        "a producer id that is guessed",
        REFUSED,
        at("kafka", "tests/kafka/test_foreign_producers.py::test_producer_ids_cannot_be_guessed"),
    ),
    Elsewhere(
        "a partition that is locked, on PostgreSQL",
        SERVED,
        at("kafka", _LOCKED + "test_a_locked_partition_keeps_no_other_waiting")
        | at("http grpc tinyq", _LOCKED + "test_who_publishes_by_http_grpc_or_tinyq_waits_for_its_own_partition_only"),
    ),
    Elsewhere(
        "one of several brokers dies amid transactions",
        SERVED,
        at(
            "kafka",
            "tests/kafka/test_two_brokers.py::test_a_copier_in_transactions_goes_on_when_one_of_two_brokers_dies",
        ),
    ),
    Elsewhere(
        "every list of every request, as long as it may be, by somebody without rights",
        SERVED,
        at("kafka", "tests/kafka/test_loop_occupancy.py::test_a_list_of_somebody_without_rights_holds_up_nobody"),
    ),
    Elsewhere(
        "names of any length, again and again",
        BOUNDED,
        at(EVERY, "tests/unit/access/test_rule.py::test_verdicts_are_kept_within_bounds_of_bytes"),
    ),
    Elsewhere(
        "failed logins of names of any length",
        BOUNDED,
        at("kafka http grpc", "tests/unit/access/test_failures.py::test_a_name_of_any_length_is_kept_in_a_few_bytes"),
    ),
    Elsewhere(
        "half of a message, on many connections",
        BOUNDED,
        at("kafka", "tests/kafka/test_hostile.py::test_an_announced_size_takes_no_memory_until_its_bytes_come")
        | at(
            "http",
            "tests/gateway/test_hostile.py::"
            "test_bodies_of_all_connections_have_a_bound_and_what_is_answered_makes_room",
        )
        | at("tinyq", "tests/gateway/test_tinyq.py::test_a_frame_whose_bytes_trickle_is_closed_in_the_same_time"),
    ),
    Elsewhere(
        "half of the one message of a call, on many calls",
        BOUNDED,
        at("grpc", _GRPC + "test_messages_that_are_being_sent_count_from_their_first_byte"),
    ),
    Elsewhere(
        "a message that is sent before there is room for it, on many calls",
        BOUNDED,
        at("grpc", _GRPC + "test_of_a_call_that_waits_for_room_no_more_than_a_window_comes"),
    ),
    Elsewhere(
        "half of a message of a stream, on many streams",
        EACH_BOUNDED,
        at("grpc", _GRPC + "test_more_calls_than_are_admitted_are_refused_and_those_that_run_go_on"),
    ),
    Elsewhere(
        "whole messages of a stream that are not answered yet",
        BOUNDED,
        at("grpc", _GRPC + "test_what_a_subscription_says_counts_until_it_is_written_down"),
    ),
    Elsewhere(
        "streams that stay open, or begin at the same time",
        "bounded in number",
        at("grpc", _GRPC + "test_open_streams_of_the_description_hold_places_as_other_calls_do")
        | at(
            "http", "tests/gateway/test_tailing.py::test_streams_that_begin_at_the_same_time_are_no_more_than_the_bound"
        ),
    ),
    Elsewhere(
        "connections without a call, as many as the process has descriptors",
        DOOR_FULL,
        at("grpc", _GRPC + "test_connections_that_say_nothing_leave_descriptors_to_the_other_doors"),
    ),
    Elsewhere(
        "line feeds and escapes in names and reasons",
        "no line is forged",
        at(EVERY, _FORGED + "test_names_of_groups_and_clients_and_reasons_forge_no_line_of_a_server"),
    ),
    Elsewhere(
        "every operation on what is hidden, and on what is not there",
        FORBIDDEN,
        at("http", _HIDDEN + "test_rest_tells_nobody_whether_a_hidden_thing_is_there")
        | at("grpc", _HIDDEN + "test_grpc_tells_nobody_whether_a_hidden_thing_is_there")
        | at("kafka", "tests/access/test_listings.py::test_all_places_of_a_group_are_those_of_topics_that_may_be_seen"),
    ),
    Elsewhere(
        "a page of another site asks",
        REFUSED,
        at("http", "tests/gateway/test_hostile.py::test_a_page_of_another_site_changes_nothing"),
    ),
    Elsewhere(
        "more bytes wanted of a partition than are bounded",
        BOUNDED,
        at(
            "kafka", "tests/kafka/test_commit_details.py::test_a_fetch_has_no_more_bytes_than_are_wanted_of_a_partition"
        ),
    ),
    Elsewhere(
        "requests with some bytes changed",
        SERVED,
        at(EVERY, "tests/fuzzing/test_fuzzing.py::test_changed_requests_end_connections_and_nothing_else"),
    ),
    Elsewhere(
        "a path that is no text",
        SERVED,
        at("grpc", _GRPC + "test_a_head_that_is_no_text_ends_its_call_and_nothing_else"),
    ),
    Elsewhere(
        "connections that stay, and half requests, while the server ends",
        ENDED,
        at(EVERY, _QUIET + "test_sigterm_ends_idle_connections_and_half_requests_without_an_error"),
    ),
]


def page() -> str:
    """Return the table of all attacks at all doors."""
    doors = [each.name for each in DOORS]
    cells = [[attack.right if hasattr(door, attack.kind) else "" for door in DOORS] for attack in ATTACKS]
    count = sum(bool(cell) for row in cells for cell in row)
    lines = [
        "# Attacks",
        "",
        "<!-- Written by `python -m tests.access.attack_table`. Do not edit: change the tests instead. -->",
        "",
        f"{len(ATTACKS)} attacks at {len(doors)} doors: {count} are tried by the tests at every run, and end "
        "as the table says. A cell is empty where a door has nothing to try it on, such as passwords.",
        "",
        "| attack | " + " | ".join(doors) + " |",
        "|---|" + "---|" * len(doors),
        *(f"| {attack.name} | " + " | ".join(row) + " |" for attack, row in zip(ATTACKS, cells, strict=True)),
        "",
        f"{len(ELSEWHERE)} more have tests of their own:",
        "",
        "| attack | " + " | ".join(doors) + " | tried by |",
        "|---|" + "---|" * (len(doors) + 1),
        *(_elsewhere(each, doors) for each in ELSEWHERE),
        "",
        "| outcome | means |",
        "|---|---|",
        "| in | it is known who asks, and the request is answered |",
        "| unauthenticated | refused as a wrong password is; the connection ends, but for HTTP |",
        "| forbidden | the same whether the thing is there or not |",
        "| invalid | refused by its form, before anything is looked up |",
        "| too large | refused at a bound, before it is all in memory |",
        "| told alike | the same iterations, length of salt and refusal, whoever has the name |",
        "| slowed | throttled as the door does it; principals outside of the tenant are not |",
        "| refused | by an error that says what is wrong; nothing of others is touched |",
        "| memory is bounded | the bytes of what is sent count from the first, and of names few are kept |",
        f"| {EACH_BOUNDED} | they count nowhere: memory is bounded by `gateway.body_bytes` times the "
        "streams, of which there are `gateway.connections` at most |",
        f"| {DOOR_FULL} | it takes three quarters of the process's descriptors; the other doors go on |",
        "| bounded in number | one principal or address never has all places |",
        "| once | the second is answered as the first, and adds nothing |",
        "| ended in time | the connection ends, and others are served meanwhile |",
        "| others are served | another principal at the same address gets in, and what it asks for |",
        "",
    ]
    return "\n".join(lines)


def _elsewhere(attack: Elsewhere, doors: list[str]) -> str:
    tests = ", ".join(f"`{each}`" for each in dict.fromkeys(attack.tests.values()))
    cells = " | ".join(attack.right if door in attack.tests else "" for door in doors)
    return f"| {attack.name} | {cells} | {tests} |"


if __name__ == "__main__":
    PAGE.write_text(page())
