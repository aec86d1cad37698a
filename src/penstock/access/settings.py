"""The files of the lock, and how often they are checked."""

from datetime import timedelta

from penstock.settings import Settings, setting


class AccessSettings(Settings, room="access"):
    """Rights at every door, and the encryption of connections."""

    policy_file: str = setting("", "The access file: users, tokens, rules and limits. Empty: none.")
    audit_file: str = setting("", "Where audit lines go. Empty: nowhere.")
    tls_cert: str = setting("", "What every listener shows: a certificate with its chain, as PEM. Empty: no TLS.")
    tls_key: str = setting("", "The key of that certificate, as PEM. Empty: it is in the same file.")
    tls_client_ca: str = setting("", "Authorities whose client certificates are taken, as PEM. Empty: none.")
    tls_client_crl: str = setting(
        "", "Lists of client certificates that are revoked (CRLs of their authorities), as PEM. Empty: none."
    )
    client_certificates: str = setting(
        "required",
        "Whether a client has to show a certificate where authorities are named.",
        choices=("required", "optional"),
    )
    secrets_in_plaintext: bool = setting(
        False, "Whether passwords and tokens are taken over connections from other machines that are not encrypted."
    )
    look: timedelta = setting(
        timedelta(seconds=1), "How often files and rules are looked at for changes.", at_least=0.05, at_most=5
    )
    login_wait: timedelta = setting(
        timedelta(seconds=10), "How long a connection may take until it has shown who it is.", at_least=1
    )
