"""Who may change whose access, and where credentials go: nobody beyond their own roles and teams, and the company keeps an owner."""

from collections.abc import Iterable, Iterator
from typing import Any

from app.api.rest.operation import Call
from app.domain.routing import ProviderConfig
from app.store.access.accounts import Account, GroupRoles, count_company_owners
from app.store.access.roles import Grant
from app.store.configuration.configuration import Changed
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


def require_may_send_credentials(call: Call[Any, Any], changed: Changed) -> None:
    """Raises NotAllowed if a change in this transaction sends a credential to a new place.

    A principal who may set credentials may do so. Nobody can read a credential, but whoever could have it
    sent to an address of their own could.
    """
    if call.principal.may("credentials:write"):
        return
    for path in _new_places(changed):
        raise NotAllowed(
            f"{path:.200} would send a credential to a new place, for which your role would need 'credentials:write'."
            " GET /admin/v1/session shows your roles."
        )


def _new_places(changed: Changed) -> Iterator[str]:
    """The changed entries with a place to which credentials were not sent before, by their paths in a file."""
    before, after = changed.before.snapshot, changed.after.snapshot
    for change in changed.changes:
        if change.section == "providers" and change.after is not None:
            old, new = before.providers.get(change.name), after.providers[change.name]
            if not set(new.credentials) <= (set(old.credentials) if old is not None and _place_of(old) == _place_of(new) else set()):
                yield f"providers.{change.name}"
        elif change.section == "models" and change.after is not None:
            old_targets = before.models[change.name].targets if change.name in before.models else ()
            known = {(target.provider, address) for target in old_targets for address in target.endpoints}
            for target in after.models[change.name].targets:
                provider = after.providers[target.provider]
                new_addresses = {address for address in target.endpoints if (target.provider, address) not in known}
                if provider.credentials and not new_addresses <= {provider.base_url}:
                    yield f"models.{change.name}"


def _place_of(provider: ProviderConfig) -> tuple[Any, ...]:
    return provider.adapter, provider.base_url, provider.options, provider.accepts_nodes


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
