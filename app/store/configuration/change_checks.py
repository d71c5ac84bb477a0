"""Checks of a change of the configuration, beyond what its own entries say."""

from collections.abc import Collection, Mapping

from app.store.configuration.rows import State
from app.store.configuration.used_entries import refuse_removing_used
from app.store.configuration.validation.addresses import check_new_addresses
from app.store.configuration.validation.new_names import check_new_names
from app.store.configuration.validation.shadows import check_shadow_teams
from app.store.configuration.validation.teams import check_teams
from app.store.configuration.validation.validate import find_new_warnings, validate
from providers.transport.address_guard import AddressGuard

__all__ = ["check_change", "find_new_warnings"]


def check_change(before: State, wanted: State, budgets_of_webhooks: Mapping[str, Collection[str]], guard: AddressGuard | None) -> None:
    """Raises BadConfiguration for the first reason why `wanted` cannot follow `before`. `guard` is for new addresses; None: for none."""
    check_teams({name: team for name, team in wanted.teams.items() if before.teams.get(name) != team})
    refuse_removing_used(before.snapshot, wanted.snapshot, budgets_of_webhooks)
    validate(wanted.snapshot)
    if guard is not None:
        check_new_addresses(before.snapshot, wanted.snapshot, guard)
    check_new_names(before.snapshot, wanted.snapshot, before.teams, wanted.teams)
    check_shadow_teams(wanted.snapshot, wanted.teams)
