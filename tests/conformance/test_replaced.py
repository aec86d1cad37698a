"""Tables dropped by force and made anew under a member that runs: it does not come back with its old ids."""

from collections.abc import Iterator

import pytest

from penstock.clock import SYSTEM
from penstock.database.database import Database
from penstock.database.dialects import open_database
from penstock.database.migrations import migrate
from penstock.database.naming import Names
from penstock.errors import StoreReplaced
from penstock.membership.member import ClusterSettings, Member
from penstock.operate.drop import drop


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    """Give a store of the test's own, since its tables are dropped."""
    opened = open_database(url, Names())
    migrate(opened)
    yield opened
    opened.close()


def test_a_member_does_not_join_tables_that_were_made_anew(database: Database) -> None:
    """Groups and topics get their numbers anew: what was its own may be the number of others now."""
    settings = ClusterSettings.load()
    member = Member(database, settings, SYSTEM)
    member.join()
    member.take()
    drop(database, force=True)
    migrate(database)
    for _ in range(2):
        with pytest.raises(StoreReplaced, match="restart it"):
            member.heartbeat()
    assert database.look(member.living) == [], "not even by its own word"
    newcomer = Member(database, settings, SYSTEM)
    newcomer.join()
    assert newcomer.take() == 256


def test_a_member_whose_row_was_removed_joins_the_same_tables_again(database: Database) -> None:
    member = Member(database, ClusterSettings.load(), SYSTEM)
    member.join()
    database.run(lambda tx: tx.change("membership", "member_leave", id=member.id))
    member.heartbeat()
    assert database.look(member.living) == [member.id]
