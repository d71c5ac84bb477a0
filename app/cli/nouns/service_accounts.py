"""narthex service-accounts: accounts of programs, and their tokens."""

from collections.abc import Sequence
from datetime import datetime

import click
from sqlalchemy.ext.asyncio import AsyncConnection

from app.cli.confirmation import confirm, yes_option
from app.cli.errors import OrderedGroup
from app.cli.nouns.accounts import (
    AccountPageQuery,
    after_option,
    find_account,
    format_roles,
    limit_option,
    list_accounts,
    print_accounts,
    query_access,
    report_disabled,
    search_option,
    set_disabled,
)
from app.cli.output import json_option, print_json, print_table
from app.cli.times import MomentParam, format_time
from app.store.access import accounts, grants, tokens
from app.store.access.accounts import Account, GroupRoles
from app.store.access.locking import lock_access
from app.store.access.roles import ROLES, Grant, only_team
from app.store.access.tokens import Token
from app.store.postgres.audit_log import command_author
from app.supervisor.machine.errors import OperatorError


@click.group("service-accounts", cls=OrderedGroup)
def service_accounts() -> None:
    """Create service accounts for programs, and their tokens.

    A program sends a token as `Authorization: Bearer nxs-...` to the admin API, and may do what the roles of its account permit. Changes
    take effect with the next request.
    """


@service_accounts.command("list")
@search_option
@limit_option
@after_option
@json_option
def list_service_accounts(search: str | None, limit: int, after: str | None, as_json: bool) -> None:
    """List service accounts, with their roles.

    \b
    Examples:
      narthex service-accounts list
      narthex service-accounts list --search terraform

    With --json: {"service_accounts": [{"id", "name", "created_at", "disabled", "roles"}], "next"}. "roles": [{"role", "team"}], "team"
    null for the whole company. "next" is the value of --after for those that follow, null if there are none.
    """
    page = list_accounts("service_account", AccountPageQuery(limit, after, search))
    if as_json:
        print_json({"service_accounts": [_document(each) for each in page.data], "next": page.next})
    else:
        print_accounts(
            page, "There is none yet; `narthex service-accounts create NAME` creates one." if search is None else "None matches."
        )


@service_accounts.command("create")
@click.argument("name")
@click.option("--role", "role", type=click.Choice(ROLES), help="Give it this role.")
@click.option("--team", help="Give it the role within this team only, not for the whole company.")
@json_option
def create(name: str, role: str | None, team: str | None, as_json: bool) -> None:
    """Create the service account NAME.

    Without --role it may do nothing until `narthex roles grant` gives it a role.

    \b
    Examples:
      narthex service-accounts create terraform --role editor
      narthex service-accounts create search/nightly --role viewer --team search

    With --json: {"id", "name", "created_at", "disabled", "roles"}.
    """
    if team is not None and role is None:
        raise click.UsageError("--team says where --role applies: give both.")
    given = next((Grant(each, team) for each in ROLES if each == role), None)

    async def store(connection: AsyncConnection, group_roles: GroupRoles) -> Account:
        id = await accounts.create_service_account(connection, command_author(), name, team=team)
        if id is None:
            raise OperatorError(f"There is a service account {name!r} already.")
        if given is not None:
            await grants.give_role(connection, command_author(), given, account_id=id)
        return await find_account(connection, group_roles, "service_account", name)

    account = query_access(store)
    if as_json:
        print_json(_document(account))
    else:
        roles = format_roles(account.roles) or "without a role"
        click.echo(f"{name} is created, {roles}. `narthex service-accounts tokens create {name}` creates a token.")


@service_accounts.command("disable")
@click.argument("name")
@json_option
def disable(name: str, as_json: bool) -> None:
    """Disable the service account NAME: its tokens are refused.

    \b
    Example:
      narthex service-accounts disable terraform

    With --json: {"name", "disabled"}.
    """
    report_disabled(set_disabled("service_account", name, disabled=True).name, disabled=True, as_json=as_json)


@service_accounts.command("enable")
@click.argument("name")
@json_option
def enable(name: str, as_json: bool) -> None:
    """Enable the service account NAME again, with the tokens that it has.

    \b
    Example:
      narthex service-accounts enable terraform

    With --json: {"name", "disabled"}.
    """
    report_disabled(set_disabled("service_account", name, disabled=False).name, disabled=False, as_json=as_json)


@service_accounts.command("delete")
@click.argument("name")
@yes_option
@json_option
def delete(name: str, yes: bool, as_json: bool) -> None:
    """Delete the service account NAME, with its tokens and roles.

    \b
    Example:
      narthex service-accounts delete terraform --yes

    With --json (which needs --yes): {"deleted": name}.
    """
    confirm(f"Delete {name}, with its tokens and roles?", yes=yes, as_json=as_json)

    async def remove(connection: AsyncConnection, group_roles: GroupRoles) -> None:
        await lock_access(connection)
        account = await find_account(connection, group_roles, "service_account", name)
        await accounts.delete_account(connection, command_author(), account, team=only_team(account.grants))

    query_access(remove)
    if as_json:
        print_json({"deleted": name})
    else:
        click.echo("Deleted.")


@service_accounts.group("tokens", cls=OrderedGroup)
def token_commands() -> None:
    """Create, list and revoke tokens of a service account."""


@token_commands.command("create")
@click.argument("account")
@click.option("--name", default="", help="A description for people.")
@click.option("--expires", type=MomentParam(), help="When it expires: 30d, 12h, 2026-12-31 or 2026-12-31T18:00Z.")
@click.option("--quiet", is_flag=True, help="Print the token and nothing else.")
@json_option
def create_token(account: str, name: str, expires: datetime | None, quiet: bool, as_json: bool) -> None:
    """Create a token of the service account ACCOUNT. It is shown once and not stored.

    \b
    Examples:
      narthex service-accounts tokens create terraform --name ci --expires 90d
      narthex service-accounts tokens create terraform --quiet > token

    With --json: {"token", "id", "name", "created_at", "expires_at"}.
    """

    async def store(connection: AsyncConnection, group_roles: GroupRoles) -> tuple[str, Token]:
        await lock_access(connection)
        found = await find_account(connection, group_roles, "service_account", account)
        team = only_team(found.grants)
        return await tokens.create_token(connection, command_author(), found, name=name, expires_at=expires, team=team)

    token, stored = query_access(store)
    if as_json:
        fields = {"id": stored.id, "name": stored.name, "created_at": stored.created_at, "expires_at": stored.expires_at}
        print_json({"token": token, **fields})
        return
    if not quiet:
        click.echo(f"A token of {account}, shown only once:", err=True)
    click.echo(token)


@token_commands.command("list")
@click.argument("account")
@json_option
def list_tokens(account: str, as_json: bool) -> None:
    """List tokens of the service account ACCOUNT, newest first, with those that ended lately.

    \b
    Example:
      narthex service-accounts tokens list terraform

    With --json: {"tokens": [{"id", "name", "created_at", "expires_at", "used_at", "revoked_at"}]}.
    """

    async def read(connection: AsyncConnection, group_roles: GroupRoles) -> list[Token]:
        return await tokens.list_tokens(connection, (await find_account(connection, group_roles, "service_account", account)).id)

    listed: Sequence[Token] = query_access(read)
    if as_json:
        print_json({"tokens": listed})
    elif not listed:
        click.echo(f"It has none; `narthex service-accounts tokens create {account}` creates one.")
    else:
        times = [[format_time(moment) for moment in (each.created_at, each.used_at, each.expires_at, each.revoked_at)] for each in listed]
        rows = [(each.id, each.name, *shown) for each, shown in zip(listed, times, strict=True)]
        print_table(("ID", "NAME", "CREATED", "USED", "EXPIRES", "REVOKED"), rows)


@token_commands.command("revoke")
@click.argument("account")
@click.argument("id")
@yes_option
@json_option
def revoke_token(account: str, id: str, yes: bool, as_json: bool) -> None:
    """Revoke the token ID of the service account ACCOUNT, for good.

    \b
    Example:
      narthex service-accounts tokens revoke terraform 019a2c3d-0000-7000-8000-000000000000

    With --json (which needs --yes): {"revoked": id}.
    """
    confirm(f"Revoke this token of {account} for good?", yes=yes, as_json=as_json)

    async def revoke(connection: AsyncConnection, group_roles: GroupRoles) -> None:
        await lock_access(connection)
        found = await find_account(connection, group_roles, "service_account", account)
        token = await tokens.find_token(connection, found.id, id)
        if token is None:
            # The id is not repeated: it may be the token itself.
            raise OperatorError(f"There is no such token of {account}; `narthex service-accounts tokens list {account}` shows ids.")
        await tokens.revoke_token(connection, command_author(), found, token, team=only_team(found.grants))

    query_access(revoke)
    if as_json:
        print_json({"revoked": id})
    else:
        click.echo("Revoked.")


def _document(account: Account) -> dict[str, object]:
    roles = [{"role": each.role, "team": each.team} for each in account.roles]
    fields = {"id": account.id, "name": account.name, "created_at": account.created_at, "disabled": account.disabled}
    return {**fields, "roles": roles}
