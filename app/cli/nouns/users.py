"""narthex users: who has signed in, with which roles; disable and enable them."""

import click

from app.cli.errors import OrderedGroup
from app.cli.nouns.accounts import (
    AccountPageQuery,
    after_option,
    find_account,
    limit_option,
    list_accounts,
    print_accounts,
    query_access,
    report_disabled,
    search_option,
    set_disabled,
)
from app.cli.output import json_option, print_json, printable


@click.group(cls=OrderedGroup)
def users() -> None:
    """List users, and disable or enable them.

    A user exists from the first sign-in on. `narthex roles` gives them roles.
    """


@users.command("list")
@search_option
@limit_option
@after_option
@json_option
def list_users(search: str | None, limit: int, after: str | None, as_json: bool) -> None:
    """List users, with their roles in force.

    \b
    Examples:
      narthex users list
      narthex users list --search ann

    With --json: {"users": [{"id", "kind", "name", "issuer", "subject", "email", "groups", "created_at", "signed_in_at", "disabled",
    "roles"}], "next"}. "roles": [{"role", "team", "group", "grant_id"}]; "team" is null for the whole company, "group" where it was given
    to the user, "grant_id" where it comes from NARTHEX_OIDC_GROUP_ROLES. "next" is the value of --after for the users that follow, null
    if there are none.
    """
    page = list_accounts("user", AccountPageQuery(limit, after, search))
    if as_json:
        print_json({"users": page.data, "next": page.next})
    else:
        print_accounts(page, "No user has signed in yet." if search is None else "No user matches.")


@users.command("show")
@click.argument("user")
@json_option
def show_user(user: str, as_json: bool) -> None:
    """Show the user with the name or id USER.

    \b
    Example:
      narthex users show ann@example.com

    With --json: one of the users as `narthex users list` has them.
    """
    account = query_access(lambda connection, group_roles: find_account(connection, group_roles, "user", user))
    if as_json:
        print_json(account)
        return
    for name in ("name", "id", "email", "issuer", "subject", "created_at", "signed_in_at"):
        click.echo(f"{name}: {printable(getattr(account, name) or '-')}")
    click.echo(f"groups: {printable(', '.join(account.groups) or '-')}")
    click.echo(f"state: {'disabled' if account.disabled else 'enabled'}")
    for role in account.roles:
        of_team = "the whole company" if role.team is None else f"team {role.team}"
        source = "" if role.group is None else f", by group {role.group}"
        click.echo(f"role: {printable(f'{role.role} of {of_team}{source}')}")


@users.command("disable")
@click.argument("user")
@json_option
def disable_user(user: str, as_json: bool) -> None:
    """Disable the user with the name or id USER: their sessions end, and they cannot sign in.

    \b
    Example:
      narthex users disable ann@example.com

    With --json: {"name", "disabled"}.
    """
    report_disabled(set_disabled("user", user, disabled=True).name, disabled=True, as_json=as_json)


@users.command("enable")
@click.argument("user")
@json_option
def enable_user(user: str, as_json: bool) -> None:
    """Enable the user with the name or id USER again; they must sign in.

    \b
    Example:
      narthex users enable ann@example.com

    With --json: {"name", "disabled"}.
    """
    report_disabled(set_disabled("user", user, disabled=False).name, disabled=False, as_json=as_json)
