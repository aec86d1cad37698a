"""A REST door over each kind of store in turn."""

from collections.abc import Iterator

import pytest

from tests.conformance.stores import *  # noqa: F403
from tests.gateway.served import ServedRest

KINDS = ("sqlite", "postgres", "files")


@pytest.fixture(params=["sqlite", *(pytest.param(each, marks=pytest.mark.slow) for each in KINDS[1:])])
def store_url(request: pytest.FixtureRequest) -> str:
    """Give the address of an empty store of each kind."""
    return address_of(request.param, request)


def address_of(kind: str, request: pytest.FixtureRequest) -> str:
    """Return the address of an empty store of a kind."""
    if kind == "files":
        return f"file://{request.getfixturevalue('tmp_path')}/log"
    address: str = request.getfixturevalue(f"{kind}_store")
    return address


@pytest.fixture
def rest(store_url: str) -> Iterator[ServedRest]:
    """Give a REST door with a topic `orders` of four partitions."""
    with ServedRest(store_url, threads=4) as served:
        served.store.log.create_topic("orders", partitions=4)
        yield served


@pytest.fixture(scope="module")
def rest_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedRest]:
    """Give one REST door for many requests; a proxy knows it as `penstock.internal`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PENSTOCK_GATEWAY_HOST_NAMES", "penstock.internal")
        with ServedRest(f"sqlite:///{tmp_path_factory.mktemp('store')}/store.db", threads=4) as served:
            yield served
