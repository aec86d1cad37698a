"""Where a command listens, and its options for TLS and access rules."""

from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from penstock.access.opening import Lock

from .options import with_options

if TYPE_CHECKING:
    from penstock.gateway.rest.api import RestApi

insecure_option = click.option(
    "--insecure",
    is_flag=True,
    help="Listen without encryption even where others can connect, open to all without an access file.",
)
_FILE = click.Path(dir_okay=False)
# A command gets these as `**lock`, for AccessSettings.
lock_options = with_options(
    click.option(
        "--access",
        "policy_file",
        type=_FILE,
        help="The access file, with the access rules; default: access.policy_file.",
    ),
    click.option("--audit", "audit_file", type=_FILE, help="The file for audit lines; default: access.audit_file."),
    click.option("--tls-cert", type=_FILE, help="Encrypt with this certificate; default: access.tls_cert."),
    click.option("--tls-key", type=_FILE, help="The key of the certificate; default: access.tls_key."),
    click.option(
        "--tls-client-ca",
        type=_FILE,
        help="Accept client certificates of these authorities; default: access.tls_client_ca.",
    ),
    click.option(
        "--tls-client-crl",
        type=_FILE,
        help="Refuse the client certificates that these lists (CRLs) revoke; else access.tls_client_crl.",
    ),
)
anonymous_option = click.option(
    "--anonymous",
    is_flag=True,
    help="Let every client that connects over TLS read, write and delete all that is served.",
)


class ListenAddress(NamedTuple):
    """A host and a port to listen on; port 0 picks a free one."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only programs on this machine can reach it; the only name that counts is `localhost`."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def __str__(self) -> str:
        """Return it as HOST:PORT."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ListenAddressType(click.ParamType[ListenAddress]):
    """The type of an option such as `--http`."""

    name = "HOST:PORT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> ListenAddress:
        """Return an address, or fail with the expected form."""
        if isinstance(value, ListenAddress):
            return value
        host, _, port = str(value).rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        host = host[1:-1] if bracketed else host
        if not host or (":" in host) != bracketed or not port.isascii() or not port.isdecimal():
            port = value if str(value).isdecimal() else "8420"
            self.fail(f"{value!r} is not HOST:PORT, such as 127.0.0.1:{port} or [::1]:{port}", param, ctx)
        if int(port) > 65535:
            self.fail(f"{value!r}: a port is from 0 to 65535; 0 picks a free one", param, ctx)
        return ListenAddress(host, int(port))


def refuse_open(flag: str, address: ListenAddress, *, insecure: bool, encrypted: bool = False) -> None:
    """Refuse to listen in plaintext where others can connect, without `--insecure`. Raises UsageError."""
    if not (insecure or encrypted or address.is_loopback):
        raise click.UsageError(
            f"{flag} {address}: other machines can connect there, and nothing is encrypted; use 127.0.0.1, "
            "give --tls-cert and --tls-key, or add --insecure if the network itself is closed, as inside "
            "a pod"
        )


def refuse_unlocked(flag: str, address: ListenAddress, doors: Lock, *, anonymous: bool | None) -> None:
    """Refuse to let other machines do everything by TLS alone, now or later, unless asked for.

    `anonymous`: None where it cannot be asked for. Plaintext was asked for by --insecure. Raises UsageError.
    """
    if anonymous or address.is_loopback or not doors.settings.tls_cert:
        return
    doors.stay_locked()
    if not doors.is_open:
        return
    file = doors.settings.policy_file
    why = f"{file} has neither users nor rules" if file else "there is no access file"
    more = ", or add --anonymous to allow just that" if anonymous is False else ""
    raise click.UsageError(
        f"{flag} {address}: other machines can connect there, and every client may do everything: {why}; "
        "give --access FILE with users and rules (penstock access hash NAME prints a user), or "
        f"--tls-client-ca, so that every client needs a certificate{more}"
    )


def refuse_without_http(flag: str, http: ListenAddress | None) -> None:
    """Refuse an option that serves something over HTTP without an address. Raises UsageError."""
    if http is None:
        raise click.UsageError(f"{flag} needs --http with the address to serve it at: --http 127.0.0.1:8420 {flag}")


@contextmanager
def running(name: str, listener: Any, *, err: bool = False) -> Iterator[None]:
    """Run a listener while the block lasts; print its address first."""
    try:
        listener.start()
        click.echo(f"{name} listening on {listener.address}", err=err)
        yield
    finally:
        listener.stop()


@contextmanager
def http_served(
    app: Any, address: ListenAddress, doors: Lock, *, api: "RestApi | None", **options: Any
) -> Iterator[str]:
    """Serve an application behind the lock while the block lasts; give its address.

    `api`: the one that it uses; it is closed, too. `options`: those of the listener.
    """
    from penstock.gateway.listener import HttpListener
    from penstock.gateway.lock import Locked

    locked = Locked(app, doors.access, secrets_in_plaintext=doors.settings.secrets_in_plaintext)
    listener = HttpListener(locked, *address, tls=doors.tls, **options)
    listener.start()
    try:
        yield listener.address
    finally:
        if api is not None:
            api.give_back()
        listener.stop()
        if api is not None:
            api.close()
