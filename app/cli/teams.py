"""narthex teams: list teams, and set what is kept of their requests."""

from typing import cast

import click

from app.cli.errors import OrderedGroup
from app.cli.output import json_option, print_json, print_table
from app.cli.store_query import query_store
from app.cli.times import format_time
from app.domain import ContentPolicy
from app.store import teams as store


@click.group(cls=OrderedGroup)
def teams() -> None:
    """List teams, and set what is kept of their requests.

    A team is created with its first key (`narthex keys create --team NAME`), by `narthex teams set`, or by [teams.NAME] in a file.
    """


@teams.command("list")
@json_option
def list_teams(as_json: bool) -> None:
    """List teams.

    \b
    Example:
      narthex teams list

    With --json: {"teams": [{"name", "content", "created_at", "keys"}]}; "keys" is the number of its valid keys.
    """
    rows = query_store(store.list_teams)
    if as_json:
        print_json({"teams": rows})
    elif not rows:
        click.echo("There are no teams yet; `narthex keys create --team NAME` creates one with its first key.")
    else:
        cells = [(row.name, row.content, str(row.keys), format_time(row.created_at)) for row in rows]
        print_table(("TEAM", "CONTENT", "KEYS", "CREATED"), cells)


@teams.command("set")
@click.argument("name")
@click.option(
    "--content",
    type=click.Choice(["full", "redacted", "none"]),
    required=True,
    help="What is kept of its requests and responses: everything, everything that does not look private, or only the numbers.",
)
@json_option
def set_team(name: str, content: str, as_json: bool) -> None:
    """Set what is kept of the requests of team NAME; a new NAME creates a team.

    It takes effect for all its keys within two seconds. docs/recording.md describes what each choice keeps.

    \b
    Example:
      narthex teams set legal --content none

    With --json: {"name", "content"}.
    """
    if not name.strip():
        raise click.BadParameter("a team needs a name", param_hint="NAME")
    policy = cast(ContentPolicy, content)
    query_store(lambda url: store.set_team(url, name.strip(), policy))
    if as_json:
        print_json({"name": name.strip(), "content": policy})
    else:
        click.echo(f"Content of team {name.strip()}: {policy}.")
