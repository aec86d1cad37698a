"""Who may write a topic does not get into another's transaction by its producer id."""

from pathlib import Path

from penstock.wire.kafka.error_numbers import ErrorNumber as E
from tests.access.doors import KafkaDoor, TlsClient
from tests.access.house import PASSWORD, RULES, House
from tests.kafka.test_foreign_producers import a_batch, begun, ended, opened, produce

BEN = "\nallow ben write topic orders\nallow ben write transaction ben-*\n"


def connected(house: House, name: str) -> TlsClient:
    client = KafkaDoor().connect(house)
    assert client.sasl("PLAIN", f"\0{name}\0{PASSWORD}".encode()) is E.NONE
    return client


def test_a_writer_without_the_right_does_not_enter_anothers_transaction(tmp_path: Path) -> None:
    with House(tmp_path, RULES + BEN) as house, connected(house, "ana") as ana, connected(house, "ben") as ben:
        end = house.batches.end(house.store.log.topic("orders"), 0)
        producer = opened(ana, "orders-tx")
        assert produce(ana, a_batch(b"own-0", producer, 0, in_transaction=True), "orders-tx")[0] is E.NONE
        assert E(begun(ben, "orders-tx")["error_code"]) is E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        opened(ben, "ben-tx")
        foreign = a_batch(b"foreign", producer, 1, in_transaction=True)
        refused = [produce(ben, foreign, name)[0] for name in (None, "orders-tx", "ben-tx")]
        wrong = E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert refused == [wrong, wrong, E.INVALID_TXN_STATE]
        assert produce(ana, a_batch(b"own-1", producer, 1, in_transaction=True), "orders-tx")[0] is E.NONE
        assert ended(ana, "orders-tx", producer) is E.NONE
        found = house.store.log.read("orders", 0, end)
        assert [each.data for each in found] == [b"own-0", b"own-1"]
