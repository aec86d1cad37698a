"""Stops the services of a run folder when its owner is gone: `python -m tests.services.guardian FOLDER`.

It waits without polling: the owner's lock is granted at the moment the owner dies. After an orderly
end the folder is gone already and there is nothing to do. Started by `run_folder.leave_guardian`.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from tests.services.postgres import PostgresServer
from tests.services.run_folder import exclusive, owner_lock


def main(folder: Path) -> None:
    """Wait for the owner's end, then stop what it left."""
    try:
        with exclusive(owner_lock(folder)):
            if folder.exists():
                PostgresServer(folder).stop()
                shutil.rmtree(folder, ignore_errors=True)
    except FileNotFoundError:
        return  # the owner came to its end before we came to our start


if __name__ == "__main__":
    main(Path(sys.argv[1]))
