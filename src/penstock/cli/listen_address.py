"""HOST:PORT: where a command listens. Plaintext needs a loopback address or `--insecure`."""

from ipaddress import ip_address
from typing import Any, NamedTuple

import click


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


insecure_option = click.option(
    "--insecure",
    is_flag=True,
    help="Listen without encryption even where others can connect, open to all without an access file.",
)


def refuse_open(flag: str, address: ListenAddress, *, insecure: bool, encrypted: bool = False) -> None:
    """Refuse to listen in plaintext where others can connect, without `--insecure`. Raises UsageError."""
    if not (insecure or encrypted or address.is_loopback):
        raise click.UsageError(
            f"{flag} {address}: other machines can connect there, and nothing is encrypted; use 127.0.0.1, "
            "give --tls-cert and --tls-key, or add --insecure if the network itself is closed, as inside "
            "a pod"
        )
