"""`reset --from-table` on typed tables and on tables of upserts, after a backup was restored."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from penstock.errors import InvalidOption
from penstock.operate.drop import restored
from penstock.pipeline.lake.commit import Evolve
from penstock.pipeline.lake.lake import Lake
from penstock.pipeline.lake.paths import folder_of
from penstock.pipeline.lake.rewind import cut_back
from tests.pipeline.stores import TOPIC, TYPES, LogStore
from tests.pipeline.test_continue import places
from tests.pipeline.test_upsert_reconcile import WrittenLake

TYPED = [folder_of(type) for type in TYPES]


def restore(store: LogStore, end: int) -> None:
    """Let the log end where a backup does, and go on from there with other records."""
    store.run(f'DELETE FROM penstock_log WHERE "offset" >= {end}')
    store.run(f"UPDATE penstock_head SET next_offset = {end} WHERE next_offset > {end}")
    restored(store.outbox)
    store.fill(300)


@pytest.mark.parametrize("typed", [TYPED, TYPED[:1]])
def test_typed_tables_are_cut_back_to_where_they_agree(
    sqlite_store: LogStore, tmp_path: Path, typed: list[str]
) -> None:
    sqlite_store.fill(150)
    lake = WrittenLake(sqlite_store, tmp_path / "lake", typed, committing=Evolve())
    lake.step()
    held, log = places(lake.to), sqlite_store.outbox.log
    restore(sqlite_store, 5)
    done = cut_back(lake.to, log, log.topic(TOPIC))
    assert places(lake.to) == [place for place in held if place[1] < 5]
    assert done.rows == len(held) - len(places(lake.to))
    (source,) = Lake(lake.to).sources()
    assert set(Lake(lake.to).ends(source).values()) == {5}


def test_rows_that_have_replaced_others_are_not_cut_off(sqlite_store: LogStore, tmp_path: Path) -> None:
    sqlite_store.fill(150)
    lake = WrittenLake(sqlite_store, tmp_path / "lake")
    lake.step()
    held, log = places(lake.to), sqlite_store.outbox.log
    (source,) = Lake(lake.to).sources()
    ends = Lake(lake.to).ends(source)
    restore(sqlite_store, 5)
    with pytest.raises(InvalidOption, match="use --rebuild"):
        cut_back(lake.to, log, log.topic(TOPIC))
    assert (places(lake.to), Lake(lake.to).ends(source)) == (held, ends)


def test_tables_of_upserts_that_lost_nothing_go_on(sqlite_store: LogStore, tmp_path: Path) -> None:
    sqlite_store.fill(150)
    lake = WrittenLake(sqlite_store, tmp_path / "lake")
    lake.step()
    held, log = places(lake.to), sqlite_store.outbox.log
    restored(sqlite_store.outbox)
    assert cut_back(lake.to, log, log.topic(TOPIC)).rows == 0
    assert places(lake.to) == held
    assert DeltaTable(lake.to / TYPED[0]).metadata().partition_columns == ["bucket"]
