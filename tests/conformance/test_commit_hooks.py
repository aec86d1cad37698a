"""Libraries that tell of a commit: the bell is made to look then, not before, and not without need."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from django.db import transaction
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from penstock.outbox.adapters.django import ADAPTER as DJANGO
from penstock.outbox.adapters.sqlalchemy import ADAPTER as SQLALCHEMY

from .django_callers import _ALIAS, _connection


class Calls:
    """What was called, each with whether a transaction was open then."""

    def __init__(self, is_open: Any) -> None:
        self._is_open = is_open
        self.made: list[bool] = []

    def __call__(self) -> None:
        self.made.append(self._is_open())


@contextmanager
def a_session() -> Iterator[Session]:
    engine = create_engine("sqlite://")
    with Session(engine) as session:
        yield session
    engine.dispose()


def test_a_session_tells_once_after_each_commit_that_it_was_asked_for() -> None:
    with a_session() as session:
        driver = session.connection().connection.driver_connection
        told = Calls(lambda: driver.in_transaction)  # type: ignore[union-attr]
        session.connection().exec_driver_sql("CREATE TABLE t (x)")
        session.commit()
        session.connection().exec_driver_sql("INSERT INTO t VALUES (1)")
        assert SQLALCHEMY.after_commit(session, told)
        assert SQLALCHEMY.after_commit(session, told)
        with session.begin_nested():
            session.connection().exec_driver_sql("INSERT INTO t VALUES (2)")
        assert told.made == []  # a savepoint commits nothing
        session.commit()
        assert told.made == [False]
        session.connection().exec_driver_sql("INSERT INTO t VALUES (3)")
        session.commit()
        assert told.made == [False]


def test_a_connection_of_sqlalchemy_tells_nothing() -> None:
    with a_session() as session:
        assert not SQLALCHEMY.after_commit(session.connection(), lambda: None)


@pytest.fixture
def django(tmp_path: Any) -> Iterator[Any]:
    with _connection(f"sqlite:///{tmp_path}/shop.db") as conn:
        yield conn


def test_django_tells_after_the_commit_and_not_of_a_savepoint_rolled_back(django: Any) -> None:
    told = Calls(lambda: django.connection.in_transaction)
    with transaction.atomic(using=_ALIAS):
        with suppress(ZeroDivisionError), transaction.atomic(using=_ALIAS):
            assert DJANGO.after_commit(django, told)
            raise ZeroDivisionError
        assert DJANGO.after_commit(django, told)
        assert DJANGO.after_commit(django, told)
        assert told.made == []
    assert told.made == [False]


def test_django_tells_nothing_where_the_program_commits_by_hand(django: Any) -> None:
    django.set_autocommit(False)
    assert not DJANGO.after_commit(django, lambda: None)
    django.rollback()
