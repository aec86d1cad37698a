"""Connection settings for a Kafka cluster, used by pipelines and commands: encryption and login.

Each setting is also an option of a pipeline's source, under the name that Kafka's own clients use:
`kafka.security.protocol` is `security_protocol` of `[kafka]`, and `PENSTOCK_KAFKA_SECURITY_PROTOCOL`. An option
overrides its setting. The driver reads them and passes them to its tasks; they are never written to a checkpoint.
"""

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from penstock.errors import InvalidOption, StoreError
from penstock.settings import Settings, setting
from penstock.wire.kafka.sasl_client import CLIENT_MECHANISMS

_PREFIX = "kafka."
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class KafkaSettings(Settings, room="kafka"):
    """How pipelines and commands reach a Kafka cluster (`kafka://host:port`)."""

    security_protocol: str = setting(
        "PLAINTEXT", "Whether connections are encrypted (SSL) and authenticate (SASL).", choices=_PROTOCOLS
    )
    sasl_mechanism: str = setting(
        "SCRAM-SHA-512", "The SASL mechanism. PLAIN sends the password itself.", choices=CLIENT_MECHANISMS
    )
    sasl_username: str = setting("", "The name of the login.")
    sasl_password: str = setting("", "The password of the login; better in the environment than in a file.")
    ssl_ca_location: str = setting("", "The trusted authorities, as PEM. Empty: those of the system.")
    ssl_certificate_location: str = setting("", "The client certificate, as PEM. Empty: none.")
    ssl_key_location: str = setting("", "The key of that certificate. Empty: it is in the same file.")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.security_protocol})"  # never the password

    @property
    def encrypts(self) -> bool:
        """Whether connections are encrypted."""
        return self.security_protocol.endswith("SSL")

    @property
    def logs_in(self) -> bool:
        """Whether connections authenticate."""
        return self.security_protocol.startswith("SASL_")

    def context(self) -> ssl.SSLContext:
        """Return the TLS context of connections. Raises InvalidOption."""
        with _reading("ssl.ca.location", self.ssl_ca_location):
            made = ssl.create_default_context(cafile=self.ssl_ca_location or None)
        if self.ssl_certificate_location:
            with _reading("ssl.certificate.location", self.ssl_certificate_location):
                made.load_cert_chain(self.ssl_certificate_location, self.ssl_key_location or None)
        return made


@contextmanager
def _reading(option: str, path: str) -> Iterator[None]:
    try:
        yield
    except OSError as exc:  # TLS errors are OSErrors, too
        why = exc.strerror or type(exc).__name__
        raise InvalidOption(f"{_PREFIX}{option}", path, f"a PEM file that can be read ({why})") from exc


def tls_refusal(where: str, error: ssl.SSLError) -> StoreError:
    """Return the error for a failed TLS handshake with a cluster."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return StoreError(
            f"the certificate of the Kafka cluster {where} could not be verified: {error.verify_message}; "
            "name its authority by PENSTOCK_KAFKA_SSL_CA_LOCATION, or a pipeline's kafka.ssl.ca.location"
        )
    return StoreError(
        f"no TLS with {where}: {error.reason or error}; see PENSTOCK_KAFKA_SECURITY_PROTOCOL, or a "
        "pipeline's kafka.security.protocol"
    )


def kafka_settings(given: Mapping[str, str]) -> KafkaSettings:
    """Return the connection settings from options and settings. Raises InvalidOption, SettingError."""
    named = {one.name.replace("_", "."): one for one in KafkaSettings.declared()}
    values: dict[str, Any] = {}
    for option in given:
        if not option.startswith(_PREFIX):
            continue
        one = named.get(option.removeprefix(_PREFIX))
        if one is None:  # its value may be a secret, as of kafka.sasl.jaas.config
            known = ", ".join(f"{_PREFIX}{name}" for name in named)
            raise InvalidOption(option, "…", f"left out: of Kafka's own options there are {known}")
        values[one.name] = given[option]
        if one.rule.choices and values[one.name] not in one.rule.choices:
            raise InvalidOption(option, values[one.name], one.rule.wanted())
    found = KafkaSettings.load(**values)
    if found.logs_in and not (found.sasl_username and found.sasl_password):
        raise InvalidOption(
            "kafka.security.protocol",
            found.security_protocol,
            "with a login: PENSTOCK_KAFKA_SASL_USERNAME and PENSTOCK_KAFKA_SASL_PASSWORD, or the options "
            "kafka.sasl.username and kafka.sasl.password",
        )
    return found
