"""Everything a process needs to lock its doors, made from the settings and kept up to date."""

import logging
from pathlib import Path
from ssl import SSLContext
from typing import Self

from penstock.clock import SYSTEM, Clock
from penstock.database.database import Database
from penstock.errors import InvalidAccessFile, InvalidCertificate

from .access import Access
from .audit_trail import AuditTrail
from .made_up import stored_key
from .principal import ANONYMOUS
from .resource import AccessRight
from .rule import ANY, AccessRule, matches
from .settings import AccessSettings
from .tls import ServerTls, TlsFiles
from .watch import AccessWatch

logger = logging.getLogger("penstock.access")

_CHANGING = frozenset({AccessRight.WRITE, AccessRight.CREATE, AccessRight.DELETE, AccessRight.ALTER})


class Lock:
    """The lock of a process: `with Lock(settings, database) as lock` for as long as its doors are open."""

    def __init__(
        self, settings: AccessSettings, database: Database | None = None, clock: Clock = SYSTEM, *, waits: bool = False
    ) -> None:
        """`database`: its rules apply, too. `waits`: as soon as it can be read, else it must be now.

        Raises AccessError, MissingExtra; unless it waits, StoreError.
        """
        self.settings = settings
        trail = _trail(settings, clock)
        key = None if database is None or waits else stored_key(database)
        self.access = Access(trail=trail, clock=clock, made_up_key=key)
        self.server_tls = tls_of(settings)  # for a listener that brings its own TLS
        path, seconds = _path(settings.policy_file), settings.look.total_seconds()
        self._watch = AccessWatch(
            self.access, path=path, database=database, tls=self.server_tls, look_seconds=seconds, clock=clock
        )
        self._watch.load(waits=waits)

    @property
    def tls(self) -> SSLContext | None:
        """The TLS context of listeners, if they use TLS."""
        return None if self.server_tls is None else self.server_tls.context

    @property
    def is_open(self) -> bool:
        """Whether anonymous clients may do everything."""
        return self.access.admits_anonymous and not self.access.rules and not self._needs_certificate

    @property
    def _needs_certificate(self) -> bool:
        return bool(self.settings.tls_client_ca) and self.settings.client_certificates == "required"

    def stay_locked(self) -> None:
        """Refuse every change that would open it; warn of a rule that lets anonymous clients change all."""
        if self._needs_certificate or self.access.must_lock:
            return
        self.access.must_lock = True
        rule = next(filter(_opens, self.access.rules), None) if self.access.admits_anonymous else None
        if rule is not None:
            words = (
                "this rule lets clients that show no user, token or certificate change everything of its kind; if "
                "that is not meant, name users in its place"
            )
            logger.warning("%s: %s: %s", rule.place, rule, words)

    def __enter__(self) -> Self:
        self._watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.stop()
        if self.access.trail is not None:
            self.access.trail.close()


def _opens(rule: AccessRule) -> bool:
    is_wide = rule.allows and rule.name == ANY and matches(rule.principal, ANONYMOUS)
    return is_wide and bool(rule.rights & _CHANGING)


def _trail(settings: AccessSettings, clock: Clock) -> AuditTrail | None:
    if not settings.audit_file:
        return None
    trail = AuditTrail(Path(settings.audit_file), clock)
    try:
        trail.open()
    except OSError as exc:
        raise InvalidAccessFile(settings.audit_file, exc.strerror or "it cannot be written") from None
    return trail


def tls_of(settings: AccessSettings) -> ServerTls | None:
    """Return the TLS identity that the settings name, if any. Raises InvalidCertificate."""
    if not settings.tls_cert:
        named = settings.tls_key or settings.tls_client_ca or settings.tls_client_crl
        if named:
            raise InvalidCertificate(named, "it is of no use without access.tls_cert (--tls-cert)")
        return None
    if settings.tls_client_crl and not settings.tls_client_ca:
        why = "it is of no use without access.tls_client_ca (--tls-client-ca)"
        raise InvalidCertificate(settings.tls_client_crl, why)
    certificate, key = Path(settings.tls_cert), Path(settings.tls_key or settings.tls_cert)
    ca, crl = _path(settings.tls_client_ca), _path(settings.tls_client_crl)
    return ServerTls(TlsFiles(certificate, key, ca, settings.client_certificates == "required", crl))


def _path(setting: str) -> Path | None:
    return Path(setting) if setting else None
