"""A log in files, and ways to fill it by batches."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.database.migrations import migrate
from penstock.log.files.log import FileLog
from penstock.log.store import open_store


@pytest.fixture
def file_log(tmp_path: Path) -> Iterator[FileLog]:
    """Give an empty log in files, with its tables made."""
    store = open_store(f"{tmp_path}/log/")
    migrate(store.database)
    assert isinstance(store.log, FileLog)
    yield store.log
    store.close()
