"""What `track` refuses before any row is written, and which addresses are of one database."""

from typing import Any

import pytest
from sqlalchemy import literal, select
from sqlalchemy.orm import DeclarativeBase, Mapped, column_property, mapped_column

from penstock import Outbox
from penstock.errors import InvalidTopic, InvalidTracking, InvalidType
from penstock.outbox.tracking.declaration import text_of
from penstock.outbox.tracking.sqlalchemy import address_of
from tests.architecture.alone import run_alone


@pytest.fixture
def outbox() -> Any:
    """Give an outbox in memory."""
    opened = Outbox("memory://")
    yield opened
    opened.close()


def model() -> Any:
    """Return a model of its own."""

    class Base(DeclarativeBase):
        pass

    class Order(Base):
        __tablename__ = "orders"
        id: Mapped[int] = mapped_column(primary_key=True)

    return Order


REFUSED = {
    "an action there is not": ({"on": "upsert"}, InvalidTracking, "on='upsert' must be some of insert"),
    "no action": ({"on": ()}, InvalidTracking, "must be some of"),
    "names of another action": ({"on": "insert", "names": {"delete": "x"}}, InvalidTracking, "not among on"),
    "no name": ({"names": {"insert": ()}}, InvalidTracking, "leave insert out of on="),
    "an empty name": ({"names": ""}, InvalidType, "event type ''"),
    "a key that is no attribute": ({"key": "number"}, InvalidTracking, "key='number', but it has no such"),
    "an owner that is no attribute": ({"owner": "x"}, InvalidTracking, "owner='x'"),
    "a column that is not there": ({"exclude": ["secret"]}, InvalidTracking, "exclude='secret'"),
    "an unknown value": ({"value": "row"}, InvalidTracking, "value='row' must be 'image', 'reference' or a"),
    "the value of another type": ({"value": {"x": "image"}}, InvalidTracking, "value names ['x']; its"),
    "a bad topic": ({"topic": "a b"}, InvalidTopic, "a b"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused_at_once(outbox: Outbox, case: str) -> None:
    options, error, words = REFUSED[case]
    order = model()
    with pytest.raises(error) as refused:
        outbox.track(order, **options)  # type: ignore[arg-type]
    assert words in str(refused.value)
    outbox.track(order)  # nothing of it has remained


def test_a_model_is_tracked_once(outbox: Outbox) -> None:
    order = model()
    assert outbox.track(order) is order
    with pytest.raises(InvalidTracking, match="Order cannot be tracked: it is already tracked"):
        outbox.track(order)


def test_what_is_no_model_is_refused(outbox: Outbox) -> None:
    order = model()
    for wrong in (int, order(id=1), order.__table__, order.__mro__[1], "Order", None):
        with pytest.raises(InvalidTracking, match="not a class that SQLAlchemy has mapped"):
            outbox.track(wrong)  # type: ignore[type-var]


def test_a_model_of_a_query_is_refused(outbox: Outbox) -> None:
    order = model()

    base: Any = order.__mro__[1]

    class Big(base):  # type: ignore[misc]
        __table__ = select(order.__table__).subquery()
        __mapper_args__ = {"primary_key": [__table__.c.id]}  # noqa: RUF012

    with pytest.raises(InvalidTracking, match="mapped to a query"):
        outbox.track(Big)


def test_an_attribute_named_events_that_is_no_method_names_nothing(outbox: Outbox) -> None:
    class Base(DeclarativeBase):
        pass

    class Order(Base):
        __tablename__ = "orders"
        id: Mapped[int] = mapped_column(primary_key=True)
        events: Mapped[str]
        double: Mapped[int] = column_property(literal(2))

    outbox.track(Order)
    assert outbox._tracker._declared[Order].types["insert"] == ("orders.inserted",)


def test_the_text_of_a_key() -> None:
    assert [text_of(each) for each in (1, "a", b"\x01\xff")] == ["1", "a", "01ff"]


def test_without_sqlalchemy_track_says_what_to_install() -> None:
    done = run_alone("import penstock\npenstock.Outbox('memory://').track(int)")
    assert "pip install 'penstock-outbox[sqlalchemy]'" in done.stderr


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("postgresql+psycopg://a@db/shop", "postgres://b:c@db:5432/shop", True),
        ("postgresql://db/shop", "postgresql://db:5433/shop", False),
        ("mysql+pymysql://db/shop", "mysql+pymysql://db/shop", True),
        ("mysql+pymysql://db:5432/shop", "postgresql://db/shop", False),
    ],
)
def test_addresses_are_of_one_database_if_its_kind_and_place_are_the_same(one: str, other: str, same: bool) -> None:
    assert (address_of(one) == address_of(other)) is same
    assert (address_of(one).kind == address_of(other).kind) is (one[:5] == other[:5])
