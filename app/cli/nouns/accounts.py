"""The parts that commands of users and of service accounts share: how accounts are read, paged and shown."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import click
from msgspec import Struct
from sqlalchemy.ext.asyncio import AsyncConnection

from app.cli.output import print_json, print_table
from app.cli.store_query import query_in_transaction
from app.cli.times import format_time
from app.domain.uuid7 import is_uuid7
from app.settings import Settings
from app.store.access import accounts
from app.store.access.accounts import Account, AccountKind, GroupRoles, RoleInForce
from app.store.access.locking import lock_access
from app.store.access.roles import only_team
from app.store.postgres.audit_log import command_author
from app.store.postgres.paging import MAX_PAGE_ROWS, Page
from app.supervisor.machine.errors import OperatorError

T = TypeVar("T")

limit_option = click.option("--limit", type=click.IntRange(1, MAX_PAGE_ROWS), default=100, show_default=True, help="Most to list.")
after_option = click.option("--after", metavar="CURSOR", help="Only those after this one: `next` of the page before.")
search_option = click.option("--search", metavar="TEXT", help="Only those with this text in their names, in any case.")


class AccountPageQuery(Struct, frozen=True):
    limit: int
    after: str | None
    search: str | None
    sort: str = "name"


def query_access(query: Callable[[AsyncConnection, GroupRoles], Awaitable[T]]) -> T:
    """Returns the result of `query`, in one transaction, with the roles of groups as the settings give them."""
    group_roles = accounts.configured_group_roles(Settings.read())
    return query_in_transaction(lambda connection: query(connection, group_roles))


def list_accounts(kind: AccountKind, query: AccountPageQuery) -> Page[Account]:
    return query_access(
        lambda connection, group_roles: accounts.page_accounts(connection, query, kind, group_roles, only=None, search=query.search)
    )


async def find_account(connection: AsyncConnection, group_roles: GroupRoles, kind: AccountKind, name: str) -> Account:
    """Finds an account by its name or, if it is a user, by its id. Raises OperatorError if there is none."""
    by_id = kind == "user" and is_uuid7(name)
    account = await accounts.find_account(connection, kind, group_roles, id=name.lower() if by_id else None, name=None if by_id else name)
    if account is None:
        command = "users" if kind == "user" else "service-accounts"
        hint = " A user exists from the first sign-in on." if kind == "user" else ""
        raise OperatorError(f"There is no {kind.replace('_', ' ')} {name!r:.100}; `narthex {command} list` lists them.{hint}")
    return account


def set_disabled(kind: AccountKind, name: str, *, disabled: bool) -> Account:
    """Returns it as it was. Raises OperatorError."""

    async def change(connection: AsyncConnection, group_roles: GroupRoles) -> Account:
        await lock_access(connection)
        account = await find_account(connection, group_roles, kind, name)
        if account.disabled != disabled:
            await accounts.set_disabled(connection, command_author(), account, disabled=disabled, team=only_team(account.grants))
        return account

    return query_access(change)


def report_disabled(name: str, *, disabled: bool, as_json: bool) -> None:
    if as_json:
        print_json({"name": name, "disabled": disabled})
    else:
        click.echo(f"{name} is {'disabled' if disabled else 'enabled'}.")


def print_accounts(page: Page[Account], nobody: str) -> None:
    if not page.data:
        click.echo(nobody)
        return
    cells = [(each.name, each.id, format_roles(each.roles), format_time(each.created_at), _state(each)) for each in page.data]
    print_table(("NAME", "ID", "ROLES", "CREATED", "STATE"), cells)
    if page.next:
        click.echo(f"There are more: --after {page.next} shows the next ones.", err=True)


def format_roles(roles: Sequence[RoleInForce]) -> str:
    return ", ".join(dict.fromkeys(each.role if each.team is None else f"{each.role} of {each.team}" for each in roles))


def _state(account: Account) -> str:
    return "disabled" if account.disabled else "enabled"
