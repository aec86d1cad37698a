"""The options for TLS and access rules of a command's listeners."""

from collections.abc import Callable
from typing import Any

import click

from penstock.access.settings import AccessSettings

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
)


def lock_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options; the command gets them as `**lock`, for `lock_settings`."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def lock_settings(given: dict[str, Any]) -> AccessSettings:
    """Return the settings in force, with the given options. Raises SettingError."""
    return AccessSettings.load(**given)
