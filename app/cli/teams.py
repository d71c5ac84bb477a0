"""narthex teams: listed, and what is kept of what they ask."""

from typing import cast

import click

from app.cli.errors import OrderedGroup
from app.cli.output import json_option, print_json, print_table
from app.cli.times import format_time
from app.domain import ContentPolicy
from app.settings import Settings
from app.store import teams as store
from app.supervisor import server_addresses
from app.supervisor.database_query import query_database


@click.group(cls=OrderedGroup)
def teams() -> None:
    """List teams, and say what is kept of what they ask.

    A team is made with its first key (`narthex keys create --team NAME`), by `narthex teams set`, or by a file's [teams.NAME].
    """


@teams.command("list")
@json_option
def list_teams(as_json: bool) -> None:
    """List teams.

    \b
    Example:
      narthex teams list

    With --json: {"teams": [{"name", "content", "created_at", "keys"}]}; "keys" is how many of its keys work.
    """
    rows = query_database(server_addresses.resolve(Settings.read()).database_url, store.list_teams)
    if as_json:
        print_json({"teams": rows})
    elif not rows:
        click.echo("There is no team yet; `narthex keys create --team NAME` makes one with its first key.")
    else:
        print_table(
            ("TEAM", "KEEPS", "KEYS", "MADE"), [(row.name, row.content, str(row.keys), format_time(row.created_at)) for row in rows]
        )


@teams.command("set")
@click.argument("name")
@click.option(
    "--content",
    type=click.Choice(["full", "redacted", "none"]),
    required=True,
    help="What is kept of its asks and replies: all, all but what looks private, or only the numbers.",
)
@json_option
def set_team(name: str, content: str, as_json: bool) -> None:
    """Set what is kept of what the team NAME asks; a new NAME is a new team.

    In force for all its keys within two seconds. docs/recording.md tells what each choice keeps.

    \b
    Example:
      narthex teams set legal --content none

    With --json: {"name", "content"}.
    """
    if not name.strip():
        raise click.BadParameter("a team needs a name", param_hint="NAME")
    policy = cast(ContentPolicy, content)
    query_database(server_addresses.resolve(Settings.read()).database_url, lambda url: store.set_team(url, name.strip(), policy))
    if as_json:
        print_json({"name": name.strip(), "content": policy})
    else:
        click.echo(f"Of what team {name.strip()} asks, this is kept: {policy}.")
