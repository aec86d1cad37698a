"""What the connections of a process know of the SQLite file that they share."""

from pathlib import Path

import pytest

from penstock.database.sqlite import shared_file
from penstock.database.sqlite.shared_file import FileConnection, SharedFile
from penstock.errors import StoreUnreachable


def test_a_file_that_another_thread_makes_meanwhile_is_not_taken_for_one_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several threads may open a new store at once: what was seen before it was made says nothing."""
    path = tmp_path / "shop.db"
    file, look = SharedFile(str(path)), shared_file._number

    def made_after_the_look(where: str) -> shared_file.FileNumber | None:
        found = look(where)
        if found is None:
            monkeypatch.undo()
            before = file.before_opening()
            path.touch()
            file.opened(FileConnection(":memory:"), before)
        return found

    monkeypatch.setattr(shared_file, "_number", made_after_the_look)
    assert file.before_opening().number is None
    assert not file.is_lost()
    path.unlink()
    with pytest.raises(StoreUnreachable, match="moved or removed"):
        file.before_opening()
