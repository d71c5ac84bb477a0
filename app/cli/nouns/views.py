"""narthex views: which roles of Postgres may read the views for analysts."""

from collections.abc import Iterator, Sequence

import click

from app.cli.errors import CommandError
from app.cli.output import json_option, print_json, print_table
from app.cli.store_query import query_store
from app.store.postgres.audit_log import command_author
from app.store.postgres.database import transaction
from app.store.schema import analyst_roles
from app.store.schema.analyst_roles import AnalystRole, UnknownRole

_print_option = click.option("--print", "is_print", is_flag=True, help="Print the SQL for the user of DATABASE_URL, and execute nothing.")


@click.group()
def views() -> None:
    """Let analysts read records in SQL.

    The schema narthex_views has what was requested, used and spent, without what was written (docs/sql.md). A role of Postgres that is
    granted them can read these views, and no table.
    """


@views.command("list")
@json_option
def list_roles(as_json: bool) -> None:
    """List the roles that may read the views.

    \b
    Example:
      narthex views list

    With --json: {"roles": [{"name", "reads_content": whether other privileges let it read what was written}]}.
    """

    async def read(database_url: str) -> Sequence[AnalystRole]:
        async with transaction(database_url) as connection:
            return await analyst_roles.list_roles(connection)

    roles = query_store(read)
    if as_json:
        print_json({"roles": roles})
    elif not roles:
        click.echo("No role was granted the views; `narthex views grant ROLE` does.")
    else:
        print_table(("ROLE", "READS CONTENT"), [(each.name, "yes, by other privileges" if each.reads_content else "no") for each in roles])


@views.command()
@click.argument("role")
@_print_option
def grant(role: str, is_print: bool) -> None:
    """Let a role of Postgres read the views, and those that later versions add.

    \b
    Examples:
      narthex views grant analyst
      narthex views grant analyst --print | psql "$DATABASE_URL"
    """
    if is_print:
        _print_statements(analyst_roles.grant_statements(role))
        return

    async def change(database_url: str) -> AnalystRole:
        async with transaction(database_url) as connection:
            return await analyst_roles.grant(connection, command_author(), role)

    try:
        granted = query_store(change)
    except UnknownRole as fault:
        raise CommandError(str(fault)) from None
    click.echo(f"{role} may read the views of the schema {analyst_roles.SCHEMA}.")
    if granted.reads_content:
        click.secho(f"By other privileges, {role} may also read what was written: it is no role for analysts.", fg="yellow", err=True)


@views.command()
@click.argument("role")
@_print_option
def revoke(role: str, is_print: bool) -> None:
    """Take the views from a role.

    \b
    Example:
      narthex views revoke analyst
    """
    if is_print:
        _print_statements(analyst_roles.revoke_statements(role))
        return

    async def change(database_url: str) -> None:
        async with transaction(database_url) as connection:
            await analyst_roles.revoke(connection, command_author(), role)

    try:
        query_store(change)
    except UnknownRole as fault:
        raise CommandError(str(fault)) from None
    click.echo(f"{role} may read no view of the schema {analyst_roles.SCHEMA} any more.")


def _print_statements(statements: Iterator[str]) -> None:
    for statement in statements:
        click.echo(f"{statement};")
