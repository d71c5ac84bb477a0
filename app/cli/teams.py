"""narthex teams: list teams, and set what is kept of their requests, what may be dropped from them, and their priority."""

from collections.abc import Sequence
from typing import cast

import click
from msgspec import UNSET

from app.cli.errors import OrderedGroup
from app.cli.options import drop_option, parse_drop, priority_option
from app.cli.output import format_drop, json_option, print_json, print_table
from app.cli.store_query import query_store
from app.cli.times import format_time
from app.domain import ContentPolicy
from app.store import teams as store
from app.store.audit_log import command_author


@click.group(cls=OrderedGroup)
def teams() -> None:
    """List teams, and set their options.

    A team is created with its first key (`narthex keys create --team NAME`), by `narthex teams set`, or by [teams.NAME] in a file.
    """


@teams.command("list")
@json_option
def list_teams(as_json: bool) -> None:
    """List teams.

    \b
    Example:
      narthex teams list

    With --json: {"teams": [{"name", "content", "drop", "priority", "created_at", "keys"}]}; "keys" is the number of its valid keys.
    """
    rows = query_store(store.list_teams)
    if as_json:
        print_json({"teams": rows})
    elif not rows:
        click.echo("There are no teams yet; `narthex keys create --team NAME` creates one with its first key.")
    else:
        cells = [
            (row.name, row.content, str(row.keys), format_time(row.created_at), str(row.priority), format_drop(row.drop)) for row in rows
        ]
        print_table(("TEAM", "CONTENT", "KEYS", "CREATED", "PRIORITY", "MAY DROP"), cells)


@teams.command("set")
@click.argument("name")
@click.option(
    "--content",
    type=click.Choice(["full", "redacted", "none"]),
    help="What is kept of its requests and responses: everything, everything that does not look private, or only the numbers.",
)
@drop_option
@priority_option
@json_option
def set_team(name: str, content: str | None, drop: Sequence[str], priority: int | None, as_json: bool) -> None:
    """Set what is kept of the requests of team NAME, what may be dropped from them, and its priority; a new NAME creates a team.

    It takes effect for all its keys within two seconds; what is not given stays. docs/recording.md describes what each choice of
    --content keeps.

    \b
    Examples:
      narthex teams set legal --content none
      narthex teams set search --drop logit_bias --drop seed
      narthex teams set batch --priority -50

    With --json: {"name", "content", "drop", "priority"}.
    """
    if not name.strip():
        raise click.BadParameter("a team needs a name", param_hint="NAME")
    droppable_fields = parse_drop(drop)
    if content is None and droppable_fields is UNSET and priority is None:
        raise click.UsageError("Nothing to set: give --content, --drop or --priority.")
    policy = UNSET if content is None else cast(ContentPolicy, content)
    new_priority = UNSET if priority is None else priority
    team = query_store(lambda url: store.set_team(url, name.strip(), policy, droppable_fields, new_priority, author=command_author()))
    if as_json:
        print_json({"name": name.strip(), "content": team.content, "drop": team.drop, "priority": team.priority})
    else:
        may_drop = format_drop(team.drop) or "nothing"
        click.echo(f"Team {name.strip()}: content {team.content}, may drop {may_drop}, priority {team.priority}.")
