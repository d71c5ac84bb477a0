"""The places that credentials go to: only who may set credentials sends one to a new place."""

from collections.abc import Iterator
from typing import Any

from app.api.rest.operation import Call
from app.domain.routing import ProviderConfig
from app.store.configuration.configuration import Changed
from providers.canonical.errors import NotAllowed


def require_may_send_credentials(call: Call[Any, Any], changed: Changed) -> None:
    """Raises NotAllowed if a change in this transaction sends a credential to a new place.

    A principal who may set credentials may do so. Nobody can read a credential, but whoever could have it
    sent to an address of their own could.
    """
    if call.principal.may("credentials:write"):
        return
    for path in _new_places(changed):
        raise _not_allowed(path)


def require_may_try(call: Call[Any, Any], name: str, old: ProviderConfig | None, new: ProviderConfig) -> None:
    """Raises NotAllowed if a check of a provider with settings that are not saved sends a credential to a new place."""
    if not call.principal.may("credentials:write") and _sends_to_new_place(old, new):
        raise _not_allowed(f"providers.{name}")


def _not_allowed(path: str) -> NotAllowed:
    return NotAllowed(
        f"{path:.200} would send a credential to a new place, for which your role would need 'credentials:write'."
        " GET /admin/v1/session shows your roles."
    )


def _new_places(changed: Changed) -> Iterator[str]:
    """The changed entries with a place to which credentials were not sent before, by their paths in a file."""
    before, after = changed.before.snapshot, changed.after.snapshot
    for change in changed.changes:
        if change.section == "providers" and change.after is not None:
            if _sends_to_new_place(before.providers.get(change.name), after.providers[change.name]):
                yield f"providers.{change.name}"
        elif change.section == "models" and change.after is not None:
            old_targets = before.models[change.name].targets if change.name in before.models else ()
            known = {(target.provider, address) for target in old_targets for address in target.endpoints}
            for target in after.models[change.name].targets:
                provider = after.providers[target.provider]
                new_addresses = {address for address in target.endpoints if (target.provider, address) not in known}
                if provider.credentials and not new_addresses <= {provider.base_url}:
                    yield f"models.{change.name}"


def _sends_to_new_place(old: ProviderConfig | None, new: ProviderConfig) -> bool:
    return not set(new.credentials) <= (set(old.credentials) if old is not None and _place_of(old) == _place_of(new) else set())


def _place_of(provider: ProviderConfig) -> tuple[Any, ...]:
    return provider.adapter, provider.base_url, provider.options, provider.accepts_nodes
