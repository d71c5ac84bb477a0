"""narthex roles: give roles to users, service accounts and groups, and take them back."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import click
from msgspec import Struct
from sqlalchemy.ext.asyncio import AsyncConnection

from app.cli.errors import OrderedGroup
from app.cli.nouns.accounts import after_option, find_account, limit_option, query_access
from app.cli.output import json_option, print_json, print_table
from app.cli.times import format_time
from app.store.access import grants
from app.store.access.accounts import GroupRoles
from app.store.access.grants import MAX_GRANTS, ReceiverKind, RoleGrant
from app.store.access.locking import lock_access
from app.store.access.roles import ROLES, Grant, Role
from app.store.postgres.audit_log import command_author
from app.supervisor.machine.errors import OperatorError

F = TypeVar("F", bound=Callable[..., Any])


class _GrantPageQuery(Struct, frozen=True):
    limit: int
    after: str | None = None
    filters: tuple[str | None, ...] = ()
    sort: str = "created_at"


def _receiver_options(command: F) -> F:
    """Adds the options of which exactly one says who has a role."""
    for option in (
        click.option("--group", help="The group of this name, as the issuer of sign-ins names it."),
        click.option("--service-account", "service_account", help="The service account of this name."),
        click.option("--user", help="The user with this name or id."),
    ):
        command = option(command)
    return command


@click.group(cls=OrderedGroup)
def roles() -> None:
    """Give roles to users, service accounts and groups, and take them back.

    A role applies to the whole company or, with --team, within one team. docs/roles.md says what each one permits. Changes take effect
    with the next request.
    """


@roles.command("list")
@click.option("--team", help="Only roles within this team.")
@click.option("--role", type=click.Choice(ROLES), help="Only this role.")
@_receiver_options
@limit_option
@after_option
@json_option
def list_roles(team: str | None, role: str | None, limit: int, after: str | None, as_json: bool, **receivers: str | None) -> None:
    """List the roles that were given, the oldest first; those in NARTHEX_OIDC_GROUP_ROLES are not among them.

    \b
    Examples:
      narthex roles list
      narthex roles list --team search
      narthex roles list --user ann@example.com

    With --json: {"roles": [{"id", "role", "team", "user", "service_account", "group", "account_id", "created_at"}], "next"}. "team" is
    null for the whole company; one of "user", "service_account" and "group" is set. "next" is the value of --after for those that
    follow, null if there are none.
    """
    named = _named(receivers)
    if len(named) > 1:
        raise click.UsageError("Give one of --user, --service-account and --group.")
    receiver = named[0] if named else None
    query = _GrantPageQuery(limit, after, (team, role, *(receiver or ())))
    page = query_access(
        lambda connection, _: grants.page_grants(connection, query, only=None, team=team, role=cast("Role | None", role), receiver=receiver)
    )
    if as_json:
        print_json({"roles": page.data, "next": page.next})
    elif not page.data:
        click.echo("No role matches." if any(query.filters) else "No role was given yet; `narthex roles grant` gives one.")
    else:
        rows = [(_receiver_text(each), each.role, each.team or "", format_time(each.created_at), each.id) for each in page.data]
        print_table(("WHO", "ROLE", "TEAM", "GIVEN", "ID"), rows)
        if page.next:
            click.echo(f"There are more: --after {page.next} shows the next ones.", err=True)


@roles.command("grant")
@click.argument("role", type=click.Choice(ROLES))
@click.option("--team", help="Within this team only, not for the whole company.")
@_receiver_options
@json_option
def grant(role: Role, team: str | None, as_json: bool, **receivers: str | None) -> None:
    """Give ROLE to a user, a service account or a group.

    \b
    Examples:
      narthex roles grant owner --user ann@example.com
      narthex roles grant viewer --team search --group engineers

    With --json: {"id", "role", "team", "user", "service_account", "group", "account_id", "created_at"}.
    """
    kind, name = _only_receiver(receivers)

    async def give(connection: AsyncConnection, group_roles: GroupRoles) -> RoleGrant:
        if kind == "group":
            return (await grants.give_role(connection, command_author(), Grant(role, team), group=name))[0]
        await lock_access(connection)
        account = await find_account(connection, group_roles, kind, name)
        return (await grants.give_role(connection, command_author(), Grant(role, team), account_id=account.id))[0]

    given = query_access(give)
    if as_json:
        print_json(given)
    else:
        click.echo(f"{_receiver_text(given)} is {role} of {_team_text(team)}.")


@roles.command("revoke")
@click.argument("role", type=click.Choice(ROLES))
@click.option("--team", help="Within this team; without it, the role for the whole company.")
@_receiver_options
@json_option
def revoke(role: Role, team: str | None, as_json: bool, **receivers: str | None) -> None:
    """Take ROLE back from a user, a service account or a group.

    \b
    Examples:
      narthex roles revoke owner --user ann@example.com
      narthex roles revoke viewer --team search --group engineers

    With --json: {"revoked": id}.
    """
    receiver = _only_receiver(receivers)

    async def take(connection: AsyncConnection, _: GroupRoles) -> RoleGrant:
        await lock_access(connection)
        query = _GrantPageQuery(MAX_GRANTS)
        page = await grants.page_grants(connection, query, only=None, team=team, role=role, receiver=receiver)
        found = next((each for each in page.data if each.team == team), None)
        if found is None:
            raise OperatorError(
                f"{receiver[1]!r:.100} was not given the role {role} of {_team_text(team)}; `narthex roles list` lists what was."
            )
        await grants.take_role(connection, command_author(), found)
        return found

    taken = query_access(take)
    if as_json:
        print_json({"revoked": taken.id})
    else:
        click.echo(f"{_receiver_text(taken)} is no longer {role} of {_team_text(team)}.")


def _named(receivers: dict[str, str | None]) -> list[tuple[ReceiverKind, str]]:
    kinds: tuple[ReceiverKind, ...] = ("user", "service_account", "group")
    return [(kind, value) for kind in kinds if (value := receivers[kind]) is not None]


def _only_receiver(receivers: dict[str, str | None]) -> tuple[ReceiverKind, str]:
    named = _named(receivers)
    if len(named) != 1:
        raise click.UsageError("Give exactly one of --user, --service-account and --group.")
    return named[0]


def _receiver_text(given: RoleGrant) -> str:
    kind, name = next(
        (kind, name)
        for kind, name in (("group", given.group), ("user", given.user), ("service account", given.service_account))
        if name is not None
    )
    return f"{kind} {name}"


def _team_text(team: str | None) -> str:
    return "the whole company" if team is None else f"team {team}"
