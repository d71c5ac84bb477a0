"""Who may change whose access: nobody beyond their own roles and teams, and the company keeps an owner."""

from collections.abc import Iterable
from typing import Any

from app.api.rest.operation import Call
from app.store.access.accounts import Account, GroupRoles, count_company_owners
from app.store.access.roles import Grant
from providers.canonical.errors import Conflict, NotAllowed


def require_may_give(call: Call[Any, Any], grants: Iterable[Grant]) -> None:
    """Raises NotAllowed unless the principal may give, and take back, all of these roles."""
    for grant in grants:
        if not call.principal.may_give(grant):
            of_team = "for the whole company" if grant.team is None else f"in team {grant.team!r:.100}"
            raise NotAllowed(
                f"This concerns the role {grant.role!r} {of_team}, which has permissions that your roles do not include."
                " GET /admin/v1/session shows your roles."
            )


def manages(call: Call[Any, Any], account: Account) -> bool:
    """Whether the principal may change a service account: every role of it is in a team whose access they may change.

    One without roles is the company's: who manages it now could use its tokens with the roles that it is given later.
    """
    teams = call.visible_teams("access:write")
    return teams is None or (bool(account.roles) and all(role.team in teams for role in account.roles))


async def require_other_owner(call: Call[Any, Any], group_roles: GroupRoles) -> None:
    """Raises Conflict if a change in this transaction left the company without an owner.

    A change by an admin key is always permitted.
    """
    if call.principal.kind != "key" and not await count_company_owners(call.connection, group_roles):
        raise Conflict("Then the company would have no owner: make somebody else an owner first. An admin key may do this in any case.")


def shown_roles(call: Call[Any, Any], account: Account) -> Account:
    """The account with the roles that the principal may see."""
    return Account(
        account.id,
        account.kind,
        account.name,
        account.issuer,
        account.subject,
        account.email,
        account.groups if call.visible_teams() is None else (),
        account.created_at,
        account.signed_in_at,
        account.disabled,
        tuple(role for role in account.roles if call.is_visible(role.team)),
    )
