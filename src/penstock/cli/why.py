"""`penstock why`: explains why something has not been delivered, and when that will change."""

import click

from penstock.operate.why import Answer, Code, QuestionKind, why

from .exit_codes import FAILED
from .options import json_option, opened, store_options
from .output import line, print_json, whole

_A = {QuestionKind.ID: "an id", QuestionKind.KEY: "a key", QuestionKind.GROUP: "a group"}


@click.command("why")
@click.argument("subject", metavar="KEY|ID|GROUP")
@store_options
@click.option(
    "--as",
    "kind",
    type=click.Choice([each.value for each in QuestionKind]),
    help="The kind of the subject, if it is ambiguous.",
)
@click.option("--group", help="Only this group.")
@click.option("--topic", help="Only this topic.")
@click.option("--key", help="The key of the record, to search for the id only in its partition.")
@click.option("--scan", is_flag=True, help="Search the whole log for it.")
@json_option
def command(
    subject: str,
    url: str,
    prefix: str,
    schema: str | None,
    kind: str | None,
    group: str | None,
    topic: str | None,
    key: str | None,
    scan: bool,
    as_json: bool,
) -> None:
    """Explain why a key, a record or a group has not been delivered.

    Prints one sentence per group concerned, with the time when that will change or the command that changes
    it. A subject that looks like a record's id is taken as one if it is found, then as a group's name, then
    as a key. Exits with 1 if nothing of that name is found.
    """
    with opened(url, prefix, schema) as store:
        found = why(
            store,
            subject,
            kind=None if kind is None else QuestionKind(kind),
            group=group,
            topic=topic,
            key=key,
            everything=scan,
        )
    if as_json:
        print_json({"answers": [whole(each) for each in found]})
    else:
        if kind is None:
            click.echo(
                line(f"{subject} is taken as {_A[found[0].kind]}; use --as to choose another kind"), err=True
            )
        for each in found:
            _print(each)
    unknown = all(each.code is Code.UNKNOWN for each in found)
    click.get_current_context().exit(FAILED if unknown else 0)


def _print(answer: Answer) -> None:
    click.echo(line(answer.sentence))
    for each in answer.also:
        click.echo(f"  also: {line(each)}")
    for each in answer.commands:
        click.echo(f"  $ {line(each)}")
