"""A small shop: orders come in by HTTP, and a handler keeps what each customer has spent.

`python shop.py` makes the tables, `uvicorn shop:app` serves, `penstock worker shop:outbox` handles events.
The database is DATABASE_URL: sqlite:///shop.db unless it is set, or postgresql://user@host/name.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel, Field
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from penstock import Exponential, Outbox, Record
from penstock.sqlalchemy import begin_immediate, session_on

URL = os.environ.get("DATABASE_URL", "sqlite:///shop.db")
DRIVERS = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg"}

scheme, rest = URL.split("://", 1)
engine = create_async_engine(f"{DRIVERS[scheme]}://{rest}")
begin_immediate(engine)  # SQLite only: a transaction that reads first cannot fail with "database is locked"
sessions = async_sessionmaker(engine)

outbox = Outbox(URL, retry=Exponential(max_retries=5))


class Base(DeclarativeBase):
    """The shop's tables."""


class Order(Base):
    """What a customer has ordered."""

    __tablename__ = "orders"
    id: Mapped[str] = mapped_column(primary_key=True)
    customer: Mapped[str]
    cents: Mapped[int]


class Spending(Base):
    """The projection: how many orders a customer has placed, and for how much. Only the handler writes it."""

    __tablename__ = "spending"
    customer: Mapped[str] = mapped_column(primary_key=True)
    orders: Mapped[int] = mapped_column(default=0)
    cents: Mapped[int] = mapped_column(default=0)


class NewOrder(BaseModel):
    """An order as it is sent."""

    id: str
    customer: str
    cents: int = Field(gt=0)


@outbox.event("order.placed", key="customer")
class OrderPlaced(BaseModel):
    """The event: an order that is committed."""

    order_id: str
    customer: str
    cents: int


@outbox.handler(group="spending", transaction=True)
def add_up(event: OrderPlaced, record: Record) -> None:
    """Add an order to its customer; commits together with the group's progress, so each order counts once."""
    with session_on(record.tx) as session:
        spending = session.get(Spending, event.customer)
        if spending is None:
            spending = Spending(customer=event.customer, orders=0, cents=0)
            session.add(spending)
        spending.orders += 1
        spending.cents += event.cents


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Close the connections when the server ends."""
    yield
    await engine.dispose()
    outbox.close()


app = FastAPI(title="shop", lifespan=lifespan)


@app.post("/orders", status_code=201)
async def place_order(new: NewOrder) -> dict[str, str]:
    """Store an order and its event in one transaction: both are there, or neither."""
    async with sessions.begin() as session:
        if await session.get(Order, new.id):
            raise HTTPException(409, f"order {new.id} exists")
        session.add(Order(id=new.id, customer=new.customer, cents=new.cents))
        event = OrderPlaced(order_id=new.id, customer=new.customer, cents=new.cents)
        event_id = await outbox.apublish(session, event)
        if new.customer == "blocked":
            raise HTTPException(403, "this customer may not order")  # neither order nor event remain
    return {"order": new.id, "event": event_id}


@app.get("/spending")
async def spending() -> dict[str, dict[str, int]]:
    """Return what the handler has added up so far."""
    async with AsyncSession(engine) as session:
        found = await session.scalars(select(Spending))
        return {one.customer: {"orders": one.orders, "cents": one.cents} for one in found}


async def make_tables() -> None:
    """Make the shop's tables and Penstock's, in one database; run it once and after every upgrade."""
    async with engine.begin() as conn:
        await conn.run_sync(Base.metadata.create_all)
    await asyncio.to_thread(outbox.migrate)
    await engine.dispose()


if __name__ == "__main__":
    asyncio.run(make_tables())
    print("the tables are there")
