"""A connection without its socket: requests come out as they went in, however the bytes are cut."""

import pytest

from penstock.errors import FrameTooLarge, InvalidRequest
from penstock.wire.kafka.apis.cluster import API_VERSIONS
from penstock.wire.kafka.apis.topics import METADATA
from penstock.wire.kafka.connection import KafkaRequest, RequestReader, answer_head
from penstock.wire.kafka.layout import Api


def framed(api: Api, version: int, body: bytes, *, id: int = 7, client: bytes | None = b"me") -> bytes:
    name = b"\xff\xff" if client is None else len(client).to_bytes(2, "big") + client
    head = api.key.to_bytes(2, "big") + version.to_bytes(2, "big") + id.to_bytes(4, "big") + name
    data = head + (b"\0" if api.is_flexible(version) else b"") + body
    return len(data).to_bytes(4, "big") + data


def fed(connection: RequestReader, data: bytes, size: int) -> list[KafkaRequest]:
    found: list[KafkaRequest] = []
    at = 0
    while at < len(data):
        room = connection.room()
        piece = data[at : at + min(size, len(room))]
        room[: len(piece)] = piece
        at += len(piece)
        found += connection.received(len(piece))
    return found


@pytest.mark.parametrize("size", [1, 2, 3, 7, 4096, 65536])
def test_requests_come_out_whole_however_they_are_cut(size: int) -> None:
    small = framed(METADATA, 1, METADATA.encode_request({"topics": None}, 1), id=1, client=None)
    topics = [{"name": "t" * 200} for _ in range(500)]
    large = framed(METADATA, 9, METADATA.encode_request({"topics": topics}, 9), id=2)
    data = (small * 5 + large + small) * 2
    found = fed(RequestReader(10_000_000), data, size)
    assert [each.correlation_id for each in found] == [1, 1, 1, 1, 1, 2, 1] * 2
    for each in found:
        api = each.api
        assert api is METADATA
        asked = api.decode_request(each.data, each.version, each.at)["topics"]
        assert asked is None if each.correlation_id == 1 else [one["name"] for one in asked] == ["t" * 200] * 500
        assert each.client_id == ("" if each.correlation_id == 1 else "me")


def test_what_was_given_out_is_not_written_to_again() -> None:
    connection = RequestReader(1_000_000)
    first = framed(METADATA, 1, METADATA.encode_request({"topics": [{"name": "first"}]}, 1))
    (kept,) = fed(connection, first, 50)
    before = bytes(kept.data)
    fed(connection, framed(METADATA, 1, METADATA.encode_request({"topics": [{"name": "other"}]}, 1)), 50)
    assert bytes(kept.data) == before


def test_a_frame_above_the_limit_is_refused_before_room_is_made_for_it() -> None:
    with pytest.raises(FrameTooLarge, match=r"broker\.frame_bytes"):
        fed(RequestReader(1000), (1001).to_bytes(4, "big"), 4)


def test_before_login_the_bound_is_named_as_that_of_a_client_that_is_not_known() -> None:
    reader = RequestReader(1000)
    reader.before_login = True
    with pytest.raises(FrameTooLarge, match="before login a request has at most 1000 bytes; let the client"):
        fed(reader, (1001).to_bytes(4, "big"), 4)


@pytest.mark.parametrize("size", [-1, 0, 7])
def test_a_size_that_no_request_has_is_refused(size: int) -> None:
    with pytest.raises(InvalidRequest):
        fed(RequestReader(1000), size.to_bytes(4, "big", signed=True), 4)


def test_the_answer_to_api_versions_has_no_tags_in_its_head() -> None:
    assert answer_head(API_VERSIONS, 3, 7, 10) == bytes([0, 0, 0, 14, 0, 0, 0, 7])
    assert answer_head(METADATA, 9, 7, 10) == bytes([0, 0, 0, 15, 0, 0, 0, 7, 0])
    assert answer_head(METADATA, 8, 7, 10) == bytes([0, 0, 0, 14, 0, 0, 0, 7])


def test_room_grows_with_what_comes_and_not_with_what_is_announced() -> None:
    connection, size = RequestReader(100_000_000), 90_000_000
    data = framed(METADATA, 1, b"\0" * size)
    assert fed(connection, data[:4], 4) == []
    assert connection.large_bytes <= 64 * 1024
    most = 0
    for end in range(4, 2_000_000, 50_000):
        fed(connection, data[end : end + 50_000], 50_000)
        most = max(most, connection.large_bytes)
        assert connection.large_bytes <= max(64 * 1024, 4 * (end + 50_000))
    assert most > 1_000_000


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"GET / HTTP/1.1\r\nHost: shop\r\n\r\n", "it looks like HTTP"),
        (b"OPTIONS * HTTP/1.1\r\n\r\n", "it looks like HTTP"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "it looks like TLS"),
    ],
    ids=["GET", "OPTIONS", "TLS"],
)
def test_another_protocol_is_named_and_not_taken_for_a_large_request(sent: bytes, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        fed(RequestReader(104_857_600), sent, len(sent))


def test_of_a_client_id_as_much_is_kept_as_a_name_has() -> None:
    (found,) = fed(RequestReader(100_000), framed(METADATA, 1, b"\0" * 4, client=b"c" * 30_000), 4096)
    assert found.client_id == "c" * 255
    assert METADATA.decode_request(found.data, 1, found.at)["topics"] == []
