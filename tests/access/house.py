"""A store with all doors, locked: the Kafka port and HTTP over TLS, one access file, one audit file."""

import json
import ssl
from functools import cache
from pathlib import Path
from typing import Any, Self

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from penstock.access.dev_certificates import DevCertificates
from penstock.access.opening import Lock
from penstock.access.password import hash_password, hash_token
from penstock.access.scram import MECHANISMS, scram_secret
from penstock.access.settings import AccessSettings
from penstock.app import Outbox
from penstock.broker.broker import Broker
from penstock.broker.settings import BrokerSettings
from penstock.clock import SYSTEM
from penstock.database.migrations import migrate
from penstock.gateway.application import application
from penstock.gateway.grpc.door import GrpcDoor
from penstock.gateway.grpc.listener import GrpcListener
from penstock.gateway.listener import HttpListener
from penstock.gateway.lock import Locked
from penstock.gateway.rest.api import RestApi
from penstock.gateway.settings import GatewaySettings, TinyqSettings
from penstock.gateway.tinyq.door import TinyqDoor
from penstock.gateway.tinyq.listener import TinyqListener
from penstock.log.store import open_batches, open_store
from penstock.model.partition import KAFKA
from penstock.operate.ports import KafkaAdministration
from tests.access.revoking import revoke

AUDIENCE, ISSUER = "penstock", "https://login.example"
PASSWORD = "canary-7f3a-password"
TOKEN = "canary-7f3a-token-0123456789"
REVOKED = "revoked"  # a client whose certificate is
PAYLOAD = b"canary-7f3a-payload"
RULES = """
allow ana     read,write,create topic       orders*
allow ana     read,delete       group       orders-*
allow ana     write             transaction orders-*
allow bot     read              topic       orders
allow ops     *                 *
deny  *       read              topic       orders-secret   # but for nobody
"""
_RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)  # made once: it takes long
OTHER_RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)


def public_pem(key: Any = _RSA) -> bytes:
    """Return a public key as everybody may have it."""
    made: bytes = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return made


def token(key: Any = _RSA, algorithm: str = "RS256", *, head: dict[str, Any] | None = None, **claims: Any) -> str:
    """Return a JWT of ana that holds, but for what is said; a claim of None is left out."""
    now = SYSTEM.now_ms() // 1000
    said = {"sub": "ana", "aud": AUDIENCE, "iss": ISSUER, "iat": now, "exp": now + 600, **claims}
    said = {name: value for name, value in said.items() if value is not None}
    return jwt.encode(said, key, algorithm=algorithm, headers={"kid": "k1", **(head or {})})


@cache
def user(name: str) -> str:
    """Return what the access file says of somebody; made once, for it takes long."""
    lines = [f"[users.{name}]", f'password = "{hash_password(PASSWORD)}"']
    lines += [f'{each.lower()} = "{scram_secret(each, PASSWORD)}"' for each in MECHANISMS]
    return "\n".join(lines)


class House:
    """All doors, between `with` and its end."""

    def __init__(
        self,
        folder: Path,
        rules: str = RULES,
        more: str = "",
        places: int = 200,
        total_bytes: int = 256 << 20,
        **settings: Any,
    ) -> None:
        """`places`: connections of each door, with half as many streams and groups.

        `total_bytes`: of requests in hand, at each door.
        """
        self.folder, self.certificates = folder, folder / "tls"
        DevCertificates(self.certificates).make(["ana", "stranger", REVOKED])
        revoke(self.certificates, REVOKED)
        self.access_file, self.audit_file = folder / "access.toml", folder / "audit.jsonl"
        key = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(_RSA.public_key()))
        (folder / "jwks.json").write_text(json.dumps({"keys": [key | {"kid": "k1", "use": "sig"}]}))
        self.users = {name: user(name) for name in ("ana", "ops", "ben")}
        self.more = more
        self.write(rules)
        self.store = open_store(f"sqlite:///{folder}/store.db")
        migrate(self.store.database)
        given = {
            "policy_file": str(self.access_file),
            "audit_file": str(self.audit_file),
            "tls_cert": str(self.certificates / "server.pem"),
            "tls_key": str(self.certificates / "server.key"),
            "tls_client_ca": str(self.certificates / "ca.pem"),
            "tls_client_crl": str(self.certificates / "crl.pem"),
            "client_certificates": "optional",
            "look": 0.05,
        }
        self.settings = AccessSettings.load(**{**given, **settings})
        self.lock = Lock(self.settings, self.store.database)
        broker_settings = BrokerSettings.load(threads=4, connections=places, total_bytes=total_bytes)
        self.batches = open_batches(self.store, batch_bytes=broker_settings.batch_bytes)
        self.broker = Broker(
            self.store,
            self.batches,
            KafkaAdministration(self.store),
            settings=broker_settings,
            access=self.lock.access,
            access_settings=self.settings,
            tls=self.lock.tls,
        )
        doors = GatewaySettings.load(
            connections=places, streams=places // 2, groups=min(10, places // 2), bodies_bytes=total_bytes
        )
        self.api = RestApi(self.store, access=self.lock.access, settings=doors)
        app = Locked(application([Outbox(self.store)], worker=False, api=self.api), self.lock.access)
        self.http = HttpListener(app, "127.0.0.1", 0, connections=places, tls=self.lock.tls)
        door = TinyqDoor(
            self.store,
            access=self.lock.access,
            settings=TinyqSettings.load(auth_timeout=self.settings.login_wait.total_seconds(), max_connections=places),
            gateway=doors,
        )
        self.tinyq = TinyqListener(door, "127.0.0.1", 0, tls=self.lock.tls)
        grpc_door = GrpcDoor(self.store, access=self.lock.access, settings=doors)
        self.grpc = GrpcListener(grpc_door, "127.0.0.1", 0, tls=self.lock.server_tls)
        for name in ("orders", "orders-secret", "payroll"):
            self.store.log.create_topic(name, partitions=1, partitioner=KAFKA)

    def write(self, rules: str, *, users: tuple[str, ...] = ("ana", "ops", "ben")) -> None:
        """Write the access file anew, in one step."""
        text = f'''rules = """{rules}"""
{chr(10).join(self.users[each] for each in users)}
[tokens.bot]
hash = "{hash_token(TOKEN)}"
[jwt]
algorithm = "RS256"
audience = "{AUDIENCE}"
issuer = "{ISSUER}"
jwks = "jwks.json"
{self.more}
'''
        new = self.access_file.with_suffix(".new")
        new.write_text(text)
        new.replace(self.access_file)

    def context(self, client: str | None = None) -> ssl.SSLContext:
        """Return what a client connects with, with a certificate or without."""
        made = ssl.create_default_context(cafile=str(self.certificates / "ca.pem"))
        if client is not None:
            made.load_cert_chain(self.certificates / f"{client}.pem", self.certificates / f"{client}.key")
        return made

    def audit(self) -> list[dict[str, Any]]:
        """Return the audit lines."""
        assert self.lock.access.trail is not None
        self.lock.access.trail.flush()
        if not self.audit_file.exists():
            return []
        return [json.loads(line) for line in self.audit_file.read_text().splitlines()]

    def __enter__(self) -> Self:
        self.lock.__enter__()
        self.broker.start()
        self.http.open()
        self.http.start()
        self.tinyq.start()
        self.grpc.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.grpc.stop()
        self.tinyq.stop()
        self.api.give_back()
        self.http.stop()
        self.api.close()
        self.broker.stop()
        self.lock.__exit__()
        self.batches.close()
        self.store.close()
