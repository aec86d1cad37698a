"""What a payload or a row holds stays out of reasons, dead letters, `why`, the doctor and every log line."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import msgspec
import pydantic
import pytest

from penstock import Fixed, Outbox, Record
from penstock.cli import main
from penstock.logs import JsonFormatter
from penstock.operate.dead import dead_letters
from penstock.operate.lanes import lanes
from penstock.operate.store_doctor import examine_store
from penstock.operate.why import why
from tests.conformance.engines import StoreEngine
from tests.suites.refusal import refusal

SECRET = "canary-4711"
GROUPS = ("typed", "structs", "raw", "batches", "answers", "falls", "bytes")
ONCE = Fixed(timedelta(seconds=1), max_retries=1)


class Payment(pydantic.BaseModel):
    amount: int
    card: str = ""


class Address(msgspec.Struct):
    number: int


def upgrade(old: Any) -> Any:
    """Give what no address is."""
    return {"number": old["street"]}


def handlers(outbox: Outbox) -> None:
    """Register handlers that fail on payloads in every way that quotes them."""
    outbox.event("paid")(Payment)
    outbox.event("moved", aliases={"moved.v1": upgrade})(Address)

    @outbox.handler(group="typed", retry=ONCE)
    def paid(event: Payment) -> None:
        raise AssertionError("it cannot be decoded")

    @outbox.handler(group="structs", retry=ONCE)
    def moved(event: Address) -> None:
        raise AssertionError("it cannot be decoded")

    @outbox.handler("raw", group="raw", retry=ONCE)
    def raw(record: Record) -> None:
        Payment.model_validate(record.value)

    @outbox.handler("raw", group="batches", retry=ONCE, batch=10)
    def batches(records: list[Record]) -> None:
        [Payment.model_validate(record.value) for record in records]

    @outbox.handler("raw", group="answers", retry=ONCE)
    def answers(record: Record) -> Any:
        return record.value

    @outbox.handler("raw", group="falls", retry=ONCE, fallback=lambda record: Payment.model_validate(record.value))
    def falls(record: Record) -> None:
        raise LookupError("no such order")

    @outbox.handler("bytes", group="bytes", retry=ONCE)
    def text(record: Record) -> None:
        assert record.value


def everything_said(engine: StoreEngine, outbox: Outbox) -> str:
    """Return all reasons that are stored, and all that is said of them."""
    said: list[Any] = [
        dead_letters(outbox),
        lanes(outbox, clock=engine.clock),
        examine_store(outbox.store, engine.clock),
    ]
    for subject in (*GROUPS, "k-1", "k-2"):
        said += why(outbox, subject, clock=engine.clock)
    with engine.connect() as conn:
        for table in ("dead", "lane"):
            said += conn.execute(f"SELECT reason FROM penstock_{table}").fetchall()
        conn.rollback()
    return "\n".join(map(repr, said))


def lines(caplog: pytest.LogCaptureFixture) -> str:
    """Return all log lines, as text and as JSON, with their tracebacks."""
    return caplog.text + "".join(JsonFormatter().format(record) for record in caplog.records)


def test_a_secret_in_a_payload_is_in_no_reason_and_no_log_line(
    engine: StoreEngine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "penstock")
    outbox = engine.another()
    handlers(outbox)
    with engine.connect() as conn:
        bad: dict[str, Any] = {"amount": SECRET, "card": SECRET}
        outbox.publish(conn, "paid", bad, key="k-1")
        outbox.publish(conn, "moved", {"number": SECRET}, key="k-1")
        outbox.publish(conn, "moved.v1", {"street": SECRET}, key="k-1")
        outbox.publish_many(conn, [{"type": "raw", "value": bad, "key": f"k-{n}"} for n in (1, 2)])
        broken = f'{{"card": "{SECRET}", '.encode()
        outbox.publish(conn, "bytes", broken, key="k-1", headers={"content-type": "application/json"})
        conn.commit()
    first = outbox.drain()
    said = everything_said(engine, outbox)
    engine.clock.advance(timedelta(seconds=5))
    second = outbox.drain()
    said += everything_said(engine, outbox)
    assert (first.dead, first.retried, second.dead) == (4, 8, 8)
    for part in ("$.amount (int_parsing)", "Expected `int`, got `str` - at `$.number`", "no such order"):
        assert part in said
        assert part in lines(caplog)
    assert "Traceback" in lines(caplog)
    assert SECRET not in said
    assert SECRET not in lines(caplog)


def test_a_row_that_a_server_quotes_is_in_no_reason_and_no_log_line(
    postgres_engine: StoreEngine, caplog: pytest.LogCaptureFixture
) -> None:
    outbox = postgres_engine.another()
    with postgres_engine.connect() as conn:
        conn.execute("CREATE TABLE customer (mail text CONSTRAINT one_mail UNIQUE, age int)")
        conn.execute("INSERT INTO customer VALUES (%s)", [SECRET])
        outbox.publish(conn, "row", 1, key="k-1")
        outbox.publish(conn, "number", 1, key="k-1")
        conn.commit()

    def insert(record: Record) -> None:
        columns = {"row": "INSERT INTO customer (mail) VALUES (%s)"}
        record.tx.execute(columns.get(record.type or "", "INSERT INTO customer (age) VALUES (%s)"), [SECRET])

    for type in ("row", "number"):
        options: dict[str, Any] = {"group": type, "transaction": True, "retry": Fixed(max_retries=0)}
        outbox.handler(type, id=type, **options)(insert)
    assert outbox.drain().dead == 2
    reasons = [letter.reason for letter in dead_letters(outbox).items]
    assert any("one_mail" in each for each in reasons)
    assert any(each == "InvalidTextRepresentation: SQLSTATE 22P02" for each in reasons)
    assert "UniqueViolation" in caplog.text
    assert SECRET not in lines(caplog) + repr(reasons)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://shop:{SECRET}@127.0.0.1:1/shop",
        f"postgresql://shop:{SECRET}@127.0.0.1:1/shop?nonsense=1",
        f"mysql://shop:{SECRET}@127.0.0.1/shop",
        f"shop:{SECRET}@127.0.0.1/shop",
        f"host=127.0.0.1 port=1 password={SECRET}",
    ],
)
def test_the_password_of_a_store_is_in_no_error_and_no_output(
    url: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "penstock")
    for command in (["doctor"], ["groups", "list"], ["audit"], ["migrate"]):
        assert refusal(SystemExit, main, [*command, "--url", url]).code
    with pytest.raises(Exception) as caught:  # noqa: PT011 (of each kind of address another)
        Outbox(url).drain()
    said = "".join(capsys.readouterr()) + lines(caplog)
    assert "127.0.0.1" in said
    error: BaseException | None = caught.value
    while error is not None:
        said += f"{error!r} {error}"
        error = error.__cause__
    assert SECRET not in said
