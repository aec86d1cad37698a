"""`penstock access`: check, list, add and remove rules; hash secrets; make certificates for trying TLS."""

import sys
from pathlib import Path

import click

from penstock.access.access import Access
from penstock.access.access_file import AccessFile
from penstock.access.dev_certificates import DevCertificates
from penstock.access.password import hash_password, hash_token
from penstock.access.principal import check_name
from penstock.access.resource import AccessRight, Resource, ResourceKind
from penstock.access.rule import parse_rule
from penstock.access.scram import MECHANISMS, scram_secret
from penstock.access.settings import AccessSettings
from penstock.database.address import FORMS
from penstock.database.naming import DEFAULT_PREFIX
from penstock.errors import Unauthenticated
from penstock.operate import access_rules

from .exit_codes import FAILED
from .options import ChosenStore, json_option, opened, store_options
from .output import is_terminal, print_json, print_table

_file_option = click.option(
    "--access", "file", type=click.Path(dir_okay=False), help="The access file; default: access.policy_file."
)
_url_option = click.option(
    "--url", envvar="PENSTOCK_URL", show_envvar=True, help=f"Include the rules of this store: {', '.join(FORMS)}."
)


@click.group("access")
def command() -> None:
    """Check, list, add or remove access rules; hash secrets; make certificates."""


@command.command("check")
@click.argument("who")
@click.argument("action", type=click.Choice([each.value for each in AccessRight]))
@click.argument("what", nargs=-1, required=True, metavar="topic NAME|group NAME|transaction NAME|cluster")
@_file_option
@_url_option
@json_option
def check(who: str, action: str, what: tuple[str, ...], file: str | None, url: str | None, as_json: bool) -> None:
    """Tell whether WHO may do something, and by which rule of which file and line.

    Exits with 0 if it is allowed, with 1 if it is not.
    """
    resource = _resource(what)
    verdict = _access(file, url).explain(who, AccessRight(action), resource)
    if as_json:
        rule = verdict.rule
        asked = {"principal": who, "action": action, "resource": {"kind": resource.kind, "name": resource.name}}
        by = {"rule": None if rule is None else str(rule), "place": None if rule is None else rule.place}
        print_json(asked | {"allowed": verdict.allowed} | by | {"why": verdict.why})
    else:
        click.echo(f"{'allowed' if verdict.allowed else 'denied'}: {verdict.why}")
    click.get_current_context().exit(0 if verdict.allowed else FAILED)


@command.command("list")
@_file_option
@_url_option
@json_option
def list_rules(file: str | None, url: str | None, as_json: bool) -> None:
    """List the rules in force, those of the file first, and the principals in the file. Never a secret."""
    policy = _access(file, url)
    rules = [{"rule": str(each), "place": each.place} for each in policy.rules]
    names = policy.names()
    if as_json:
        print_json({"rules": rules, "principals": names, "anonymous": policy.admits_anonymous})
        return
    if rules:
        print_table(("rule", "place"), [list(each.values()) for each in rules])
    else:
        click.echo("no rules: every client that is admitted may do everything")
    for each in names:
        click.echo(f"{each['kind']} {each['name']}")


@command.command("add")
@click.argument("rule", nargs=-1, required=True)
@store_options
def add(rule: tuple[str, ...], chosen: ChosenStore) -> None:
    """Add a rule to the database: allow|deny PRINCIPAL ACTIONS KIND NAME.

    It takes effect at every listener within 5 seconds. From the first rule on, everything that no rule allows
    is denied, so begin with: penstock access add allow ME '*' '*'
    """
    parsed = parse_rule(" ".join(rule))
    with chosen.opened() as store:
        access_rules.add(store, [parsed])
    click.echo(f"added: {parsed}")


@command.command("remove")
@click.argument("rule", nargs=-1, required=True)
@click.option("--last", is_flag=True, help="Remove it even if the database has no rules then.")
@store_options
def remove(rule: tuple[str, ...], last: bool, chosen: ChosenStore) -> None:
    """Remove a rule from the database. Edit the access file to remove one of its rules.

    The last rule is only removed with --last: without rules every client may do everything.
    """
    parsed = parse_rule(" ".join(rule))
    with chosen.opened() as store:
        left = access_rules.remove(store, [parsed], last=last)
    click.echo(f"removed: {parsed}")
    if not left:
        click.echo("the database has no rules left; without rules in a file every client may do everything", err=True)


@command.command("hash")
@click.argument("name")
@click.option("--token", "is_token", is_flag=True, help="Hash a static token instead of a password.")
def hash_secret(name: str, is_token: bool) -> None:
    """Read a password or token of NAME from standard input; print its lines for the access file.

    A password is hashed for PLAIN and Basic (scrypt), SCRAM-SHA-256 and SCRAM-SHA-512; omit the lines that
    you do not need. A token should be long and random: openssl rand -hex 32
    """
    try:
        check_name(name)
    except Unauthenticated:
        raise click.UsageError(f"{name!r} is not a valid name of a principal") from None
    if is_terminal():
        secret = str(click.prompt("secret", hide_input=True, confirmation_prompt=True, err=True))
    else:
        secret = sys.stdin.readline().rstrip("\r\n")
    if is_token:
        click.echo(f'[tokens."{name}"]\nhash = "{hash_token(secret)}"')
        return
    click.echo(f'[users."{name}"]\npassword = "{hash_password(secret)}"')
    for mechanism in MECHANISMS:
        click.echo(f'{mechanism.lower()} = "{scram_secret(mechanism, secret)}"')


@command.command("dev-certs")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), metavar="DIR")
@click.option("--client", "clients", multiple=True, default=("client",), show_default=True, help="A client's name.")
@click.option("--host", "hosts", multiple=True, help="A name or address of the server, in addition to localhost.")
def dev_certs(folder: Path, clients: tuple[str, ...], hosts: tuple[str, ...]) -> None:
    """Make certificates for trying TLS: an authority, a server's and a client's. Not for production.

    Run again, it keeps the authority and renews the others; a running `penstock serve` reloads them.
    """
    for path in DevCertificates(folder).make(clients, hosts):
        click.echo(f"made {path} and its key")
    server = f"--tls-cert {folder}/server.pem --tls-key {folder}/server.key --tls-client-ca {folder}/ca.pem"
    click.echo(f"serve with: penstock serve --kafka 127.0.0.1:9093 {server}")


def _access(file: str | None, url: str | None) -> Access:
    path = AccessSettings.load(policy_file=file).policy_file
    access = Access(AccessFile(Path(path)).load()) if path else Access()
    if url is not None:
        with opened(url, DEFAULT_PREFIX, None) as store:
            access.install(stored=access_rules.rules(store))
    return access


def _resource(words: tuple[str, ...]) -> Resource:
    kind, *names = words[0].split(":", 1) if len(words) == 1 else words
    try:
        found = ResourceKind(kind)
    except ValueError:
        raise click.UsageError(f"{kind!r} is not one of {', '.join(ResourceKind)}") from None
    if len(names) != (found is not ResourceKind.CLUSTER):
        wanted = "cluster" if found is ResourceKind.CLUSTER else f"{found} NAME"
        raise click.UsageError(f"the resource must be: {wanted}")
    return Resource(found, *names)
