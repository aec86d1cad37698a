"""The options for TLS and access rules of a command's listeners."""

from collections.abc import Callable
from typing import Any

import click

from penstock.access.opening import Lock
from penstock.access.settings import AccessSettings

from .listen_address import ListenAddress

_FILE = click.Path(dir_okay=False)
_OPTIONS = (
    click.option(
        "--access",
        "policy_file",
        type=_FILE,
        help="The access file, with the access rules; default: access.policy_file.",
    ),
    click.option(
        "--audit", "audit_file", type=_FILE, help="The file for audit lines; default: access.audit_file."
    ),
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
    help="Let everybody who can connect over TLS do all that is served: read, write, delete.",
)


def lock_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options; the command gets them as `**lock`, for `lock_settings`."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def lock_settings(given: dict[str, Any]) -> AccessSettings:
    """Return the settings in force, with the given options. Raises SettingError."""
    return AccessSettings.load(**given)


def refuse_unlocked(flag: str, address: ListenAddress, doors: Lock, *, anonymous: bool | None) -> None:
    """Refuse to let other machines do everything by TLS alone, now or later, unless asked for.

    `anonymous`: None where it cannot be asked for. What is not encrypted was asked for by --insecure.
    Raises UsageError.
    """
    if anonymous or address.is_loopback or not doors.settings.tls_cert:
        return
    doors.stay_locked()
    if not doors.is_open:
        return
    file = doors.settings.policy_file
    why = f"{file} names nobody and has no rules" if file else "there is no access file"
    more = ", or add --anonymous to allow just that" if anonymous is False else ""
    raise click.UsageError(
        f"{flag} {address}: other machines can connect there, and everybody may do all it serves: {why}; "
        "give --access FILE with users and rules (penstock access hash NAME prints a user), or "
        f"--tls-client-ca, so that every client needs a certificate{more}"
    )
