"""The address of a Kafka cluster. The whole room checks for one; only Kafka users need the readers."""

from penstock.database.address import without_password
from penstock.errors import InvalidUrl

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
