"""The lock of the gRPC port: certificates, rules that change under a stream, limits, the description."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from penstock.access.dev_certificates import DevCertificates
from penstock.operate import groups
from penstock.operate.groups import create as create_group
from tests.access.house import PAYLOAD, RULES, TOKEN, House, token
from tests.access.test_changes import changed
from tests.gateway.grpc_client import GrpcClient, PublishRequest, event, reason

CONNECTIONS = 100
C = grpc.StatusCode


@pytest.fixture
def own(tmp_path: Path) -> Iterator[House]:
    """Give a house to change."""
    with House(tmp_path) as made:
        yield made


def connected(house: House, *, client: str | None = None, **said: Any) -> GrpcClient:
    """Return a client over TLS, with a certificate or without."""

    def of(name: str) -> bytes:
        return (house.certificates / name).read_bytes()

    shown = (of(f"{client}.key"), of(f"{client}.pem")) if client else (None, None)
    credentials = grpc.ssl_channel_credentials(of("ca.pem"), *shown)
    return GrpcClient(house.grpc.address.replace("127.0.0.1", "localhost"), credentials, **said)


def as_ana(house: House) -> GrpcClient:
    return connected(house, authorization=f"Bearer {token()}")


def code_of(client: GrpcClient, method: str, **fields: Any) -> grpc.StatusCode:
    try:
        client(method, **fields)
    except grpc.RpcError as exc:
        return exc.code()
    return C.OK


def test_where_certificates_are_required_they_say_who_it_is(tmp_path: Path) -> None:
    with House(tmp_path, client_certificates="required") as own:
        with connected(own, client="ana") as ana:
            assert code_of(ana, "Consuming.Read", topic="orders") is C.OK
            assert code_of(ana, "Consuming.Read", topic="payroll") is C.PERMISSION_DENIED
        with connected(own, client="stranger") as stranger:
            assert code_of(stranger, "Consuming.Read", topic="orders") is C.PERMISSION_DENIED
        with connected(own) as nobody:
            assert code_of(nobody, "Consuming.Read", topic="orders") is C.UNAVAILABLE
        forged = tmp_path / "forged"
        DevCertificates(forged).make(["ana"])
        for kind in ("pem", "key"):
            (forged / f"ana.{kind}").replace(own.certificates / f"forged.{kind}")
        with connected(own, client="forged") as other:
            assert code_of(other, "Consuming.Read", topic="orders") is C.UNAVAILABLE
        methods = {each["method"] for each in own.audit() if each["event"] == "authentication"}
        assert methods == {"certificate"}


def test_a_changed_rule_ends_streams_and_refuses_calls_on_an_open_connection(own: House) -> None:
    with as_ana(own) as client:
        subscriber = client.subscribe("orders", "orders-mailer")
        client.publish("orders", event("e-1", "a"))
        assert subscriber.records(1)[0].id == "e-1"
        publishing = client.stream(
            "Publishing.PublishStream", iter([PublishRequest(topic="orders", events=[event("e-2", "a")])])
        )
        assert next(publishing).places[0].id == "e-2"
        changed(own, lambda: own.write(RULES + "deny ana * topic orders\n"))
        with pytest.raises(grpc.RpcError) as caught:
            list(subscriber.answers)
        assert (caught.value.code(), reason(caught.value)) == (C.PERMISSION_DENIED, "not_allowed")
        assert code_of(client, "Publishing.Publish", topic="orders") is C.PERMISSION_DENIED


def test_a_user_who_is_gone_is_sent_away_from_a_stream(own: House) -> None:
    with connected(own, authorization=f"Bearer {TOKEN}") as bot:
        changed(own, lambda: own.write(RULES + "allow bot read group orders-*\n"))
        subscriber = bot.subscribe("orders", "orders-bot")
        with as_ana(own) as ana:
            ana.publish("orders", event("e-1", "a"))
        assert subscriber.records(1)[0].id == "e-1"
        text = own.access_file.read_text().replace("[tokens.bot]", "[tokens.robot]")
        changed(own, lambda: own.access_file.write_text(text))
        with pytest.raises(grpc.RpcError) as caught:
            next(subscriber.answers)
        assert caught.value.code() is C.UNAUTHENTICATED


def test_certificates_are_renewed_while_a_hundred_connections_run(tmp_path: Path) -> None:
    with House(tmp_path, look=5) as own, ExitStack() as stack:
        clients = [stack.enter_context(as_ana(own)) for _ in range(CONNECTIONS)]
        assert {code_of(each, "Consuming.Read", topic="orders") for each in clients} == {C.OK}
        old = shown_by(own)
        DevCertificates(own.certificates).make(["ana"])
        own.lock._watch.look()
        assert shown_by(own) != old
        assert {code_of(each, "Consuming.Read", topic="orders") for each in clients} == {C.OK}
        with as_ana(own) as new:  # which knows only the new authority, if that is another
            assert code_of(new, "Consuming.Read", topic="orders") is C.OK
        (own.certificates / "server.pem").write_text("no certificate")
        own.lock._watch.look()
        with as_ana(own) as later:
            assert code_of(later, "Consuming.Read", topic="orders") is C.OK
        assert {code_of(each, "Consuming.Read", topic="orders") for each in clients} == {C.OK}


def shown_by(own: House) -> bytes | None:
    """Return the certificate that a new connection is shown."""
    context = own.context()
    context.set_alpn_protocols(["h2"])
    host, _, port = own.grpc.address.rpartition(":")
    with (
        socket.create_connection((host, int(port)), 30) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secured,
    ):
        return secured.getpeercert(binary_form=True)


def test_who_is_beyond_a_limit_is_told_when_to_try_again(tmp_path: Path) -> None:
    more = '[[limits]]\nprincipal = "ana"\ntopic = "orders*"\nrequests_per_second = 0.5\n'
    with House(tmp_path, more=more) as own, as_ana(own) as client:
        client.publish("orders", event("e-1"))
        with pytest.raises(grpc.RpcError) as caught:
            client.publish("orders", event("e-2"))
        assert (caught.value.code(), reason(caught.value)) == (C.RESOURCE_EXHAUSTED, "rate_limited")


def test_a_group_tells_nothing_of_topics_that_may_not_be_known(house: House) -> None:
    for topic in ("orders", "payroll"):
        create_group(house.store, "orders-both", topic)
    with as_ana(house) as client:
        assert client("Groups.Get", name="orders-both").topics == ["orders"]
        listed = {each.name: each.topics for each in client("Groups.List").groups}
        assert listed["orders-both"] == ["orders"]
    groups.delete(house.store, "orders-both")


def test_the_description_is_given_to_who_is_known_and_health_to_everybody(house: House) -> None:
    with connected(house) as nobody:
        stub = health_pb2_grpc.HealthStub(nobody.channel)
        assert stub.Check(health_pb2.HealthCheckRequest(), timeout=30).status == 1
        from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

        asked = reflection_pb2.ServerReflectionRequest(list_services="")
        with pytest.raises(grpc.RpcError) as caught:
            next(reflection_pb2_grpc.ServerReflectionStub(nobody.channel).ServerReflectionInfo(iter([asked])))
        assert caught.value.code() is C.UNAUTHENTICATED
        said = [("authorization", f"Bearer {token()}")]
        stub = reflection_pb2_grpc.ServerReflectionStub(nobody.channel)
        answer = next(stub.ServerReflectionInfo(iter([asked]), metadata=said, timeout=30))
        assert "penstock.v1.Topics" in {each.name for each in answer.list_services_response.service}
    assert ProtoReflectionDescriptorDatabase  # a client of the description is in tests/gateway


def test_no_secret_and_no_payload_is_in_the_audit_and_what_was_done_is(house: House) -> None:
    with as_ana(house) as client:
        client.publish("orders", event("e-1", value=PAYLOAD, content_type="text/plain"))
        assert code_of(client, "Consuming.Read", topic="payroll") is C.PERMISSION_DENIED
    lines = [each for each in house.audit() if each["door"] == "grpc"]
    assert {(each["outcome"], each.get("resource")) for each in lines} >= {("refused", "topic payroll")}
    said = house.audit_file.read_text()
    assert PAYLOAD.decode() not in said
    assert TOKEN not in said
