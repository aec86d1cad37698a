"""One house for the tests that do not change it."""

import os
import subprocess
from collections.abc import Iterator

import pytest

from penstock.database.migrations import migrate
from penstock.gateway import listener as listening
from penstock.log.store import open_store
from penstock.model.partition import KAFKA
from tests.access.house import House
from tests.unit.cli.program import penstock

LOGIN_SECONDS = 4.0
SECONDS = 30


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """Give a house with every door open, and little time to say who one is."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(listening, "REQUEST_SECONDS", LOGIN_SECONDS)
        with House(tmp_path_factory.mktemp("house"), login_wait=LOGIN_SECONDS) as made:
            yield made


@pytest.fixture(scope="module")
def address(house: House) -> Iterator[str]:
    """Give the address of a process of its own, locked by the files of the house."""
    tls, url = house.certificates, f"sqlite:///{house.folder}/served.db"
    store = open_store(url)
    migrate(store.database)
    for name in ("orders", "orders-secret", "payroll"):
        store.log.create_topic(name, partitions=1, partitioner=KAFKA)
    store.close()
    command = penstock("serve", "--url", url, "--kafka", "127.0.0.1:0")
    command += ["--access", str(house.access_file), "--audit", str(house.folder / "served.jsonl")]
    command += ["--tls-cert", f"{tls}/server.pem", "--tls-key", f"{tls}/server.key"]
    command += ["--tls-client-ca", f"{tls}/ca.pem", "--log-level", "info"]
    environ = os.environ | {"PENSTOCK_ACCESS_CLIENT_CERTIFICATES": "optional"}
    with (house.folder / "served.log").open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environ)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("kafka listening on "), (house.folder / "served.log").read_text()
        yield line.removeprefix("kafka listening on ").strip()
        process.terminate()
        assert process.wait(SECONDS) == 0
        process.stdout.close()
