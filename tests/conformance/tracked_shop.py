"""A shop whose models a test may track: its classes are made anew for each test, for tracking lasts."""

import enum
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import sqlalchemy
from sqlalchemy import JSON, Enum, ForeignKey, String, func
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

from penstock import Outbox, Record
from tests.conformance.callers import sqlalchemy_engine


class Status(enum.Enum):
    """Where an order stands."""

    NEW = "new"
    PAID = "paid"


@dataclass
class Shop:
    """The models, a database with their tables, and what the outbox there has delivered."""

    outbox: Outbox
    engine: sqlalchemy.Engine
    models: dict[str, Any] = field(default_factory=dict)
    seen: list[Record] = field(default_factory=list)

    def session(self, **options: Any) -> Session:
        """Open a session of the caller's."""
        return Session(self.engine, **options)

    def delivered(self) -> list[Record]:
        """Return what has come since the last call."""
        self.seen.clear()
        self.outbox.drain()
        return list(self.seen)

    def types(self) -> list[str]:
        """Return the types of what has come since the last call."""
        return [str(record.type) for record in self.delivered()]

    def __getattr__(self, name: str) -> Any:
        return self.models[name]


@contextmanager
def opened_shop(outbox: Outbox, url: str) -> Iterator[Shop]:
    """Give a shop on a store."""
    with sqlalchemy_engine(url) as engine:
        shop = Shop(outbox, engine, _models())
        outbox.handler(group="test", id="test")(shop.seen.append)
        shop.Base.metadata.create_all(engine)
        try:
            yield shop
        finally:
            shop.Base.metadata.drop_all(engine)


def _models() -> dict[str, Any]:
    class Base(DeclarativeBase):
        pass

    class Customer(Base):
        __tablename__ = "customers"
        id: Mapped[int] = mapped_column(primary_key=True)
        name: Mapped[str] = mapped_column(String, default="")
        orders: Mapped[list["Order"]] = relationship(back_populates="customer", cascade="all, delete-orphan")

    class Order(Base):
        __tablename__ = "orders"
        id: Mapped[int] = mapped_column(primary_key=True)
        cents: Mapped[int] = mapped_column(default=0)
        secret: Mapped[str | None]
        kind: Mapped[str] = mapped_column(default="order")
        made: Mapped[datetime] = mapped_column(server_default=func.now())
        customer_id: Mapped[int | None] = mapped_column(ForeignKey("customers.id"))
        customer: Mapped[Customer | None] = relationship(back_populates="orders")
        __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "order"}  # noqa: RUF012

    class Gift(Order):
        __tablename__ = "gifts"
        id: Mapped[int] = mapped_column(ForeignKey("orders.id"), primary_key=True)
        wish: Mapped[str] = mapped_column(default="")
        __mapper_args__ = {"polymorphic_identity": "gift"}  # noqa: RUF012

    class Thing(Base):
        __tablename__ = "things"
        id: Mapped[UUID] = mapped_column(primary_key=True)
        price: Mapped[Decimal] = mapped_column(sqlalchemy.Numeric(10, 2))
        status: Mapped[Status] = mapped_column(Enum(Status))
        data: Mapped[dict[str, Any]] = mapped_column(JSON)
        raw: Mapped[bytes | None]

    class Line(Base):
        __tablename__ = "lines"
        order_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
        number: Mapped[str] = mapped_column(primary_key=True)
        amount: Mapped[int] = mapped_column(default=1)

        def events(self) -> list[str]:
            return ["line.touched", f"line.{self.number}"]

    return {each.__name__: each for each in (Base, Customer, Order, Gift, Thing, Line)}
