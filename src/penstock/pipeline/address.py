"""The addresses of stores and of Spark: which is a Kafka cluster, and what tasks can reach. No I/O."""

from penstock.database.address import directory_in, without_password
from penstock.database.url import plain_url
from penstock.errors import InvalidOption, InvalidUrl

_SCHEME = "kafka://"
_FORM = "kafka://host:port"


def is_kafka(url: str) -> bool:
    """Return whether an address is that of a Kafka cluster."""
    return url.startswith(_SCHEME)


def kafka_address(url: str) -> tuple[str, int]:
    """Return host and port of a cluster. Raises InvalidUrl."""
    host, found, port = url.removeprefix(_SCHEME).rstrip("/").rpartition(":")
    if "@" in host:
        raise InvalidUrl(
            without_password(url),
            (),
            f"it has a login, and must be {_FORM}; the login is PENSTOCK_KAFKA_SASL_USERNAME and "
            "PENSTOCK_KAFKA_SASL_PASSWORD",
        )
    if not (found and host and port.isdecimal() and 0 < int(port) < 65_536):
        raise InvalidUrl(without_password(url), (), f"it is not {_FORM}")
    return host.strip("[]"), int(port)


def without_token(server: str) -> str:
    """Return the address of a Spark Connect server without the token that it may contain."""
    return server.partition(";")[0].removesuffix("/")


def said_of(server: str, said: str) -> str:
    """Return a message about a Spark Connect server without the parameters of its address."""
    said = said.replace(server, without_token(server))
    for each in server.split(";")[1:]:  # Spark quotes them one by one, or in an address of another form
        value = each.partition("=")[2] or each
        said = said.replace(value, "…") if value else said
    return said


def check_reach(url: str, master: str) -> None:
    """Refuse a store in files if tasks run on other machines. Raises InvalidOption."""
    if is_local(master):
        return
    if is_connect(master):
        raise InvalidOption(
            "master",
            without_token(master),
            "a Spark that the command can drive, as spark://host:7077; with Spark Connect use the formats in "
            "a program of your own: penstock.pipeline.register(spark)",
        )
    if is_kafka(url):
        return
    plain = plain_url(url)
    if directory_in(plain) is not None or plain.partition(":")[0] in ("sqlite", "memory"):
        raise InvalidOption(
            "url",
            url,
            f"a database that every executor of {master} reaches, as in postgresql://host/shop; a file of "
            "this machine is read with --master 'local[*]'",
        )


def is_local(master: str) -> bool:
    """Return whether tasks run in the driver's own process."""
    return master == "local" or master.startswith("local[")


def is_connect(master: str) -> bool:
    """Return whether it is a server of Spark Connect, which runs queries for clients."""
    return master.startswith("sc://")
