"""`penstock why`: one sentence on why something has not been delivered, and when that will change."""

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
    help="What it is, if it could be several.",
)
@click.option("--group", help="Only this group.")
@click.option("--topic", help="Only this topic.")
@click.option("--key", help="The key of the record: the id is then looked for in its partition only.")
@click.option("--scan", is_flag=True, help="Look through the whole log for it.")
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
    """Say why a key, a record or a group has not been delivered.

    And when that will change, or what would change it: one sentence for each group concerned. What looks
    like a record's id is taken for one if it is found, then for a group's name, then for a key. Exits with 1
    when there is nothing of that name.
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
            click.echo(line(f"{subject} is taken for {_A[found[0].kind]}; --as says otherwise"), err=True)
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
