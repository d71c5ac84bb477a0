"""Limits: /admin/v1/limits and /admin/v1/limits/{name}, as [[limits]] of a configuration file.

Those whose resource is cost_usd are budgets, too (budgets.py). A role within a team sees the limits that name the team or its keys, and
those that each team or key has.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from app.api.rest.entry_operations import entry_operations
from app.api.rest.entry_resource import EntryResource
from app.api.rest.fields import Search
from app.api.rest.operation import Operation
from app.domain.limits import Period, Resource
from app.settings import Settings
from app.store.configuration.config_file import normalize_limit
from app.store.configuration.entries import LIMITS, limits_of_teams, limits_with
from app.store.configuration.validation.prices import MAX_NAME_CHARACTERS
from app.store.postgres.paging import After
from app.store.postgres.paging import Limit as PageLimit

LimitSort = Annotated[
    Literal["position", "-position", "name", "-name", "created_at", "-created_at", "updated_at", "-updated_at"],
    Meta(description="position: as in a configuration file."),
]
ScopeFilter = Annotated[str, Meta(max_length=MAX_NAME_CHARACTERS, description='Whose scope has this name, or "each".')]


class LimitQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: PageLimit = 100
    after: After | None = None
    sort: LimitSort = "position"
    search: Search | None = None
    resource: Annotated[Resource, Meta(description="cost_usd: the budgets.")] | None = None
    per: Period | None = None
    team: ScopeFilter | None = None
    key: ScopeFilter | None = None
    model: ScopeFilter | None = None


def operations(settings: Settings) -> list[Operation[Any, Any]]:
    return entry_operations(
        EntryResource(
            section=LIMITS,
            noun="limit",
            id_noun="configured_limit",
            path="/limits",
            key_path="/{name}",
            tag="Limits",
            about="A limit: a rule that callers are held to.",
            query=LimitQuery,
            conditions=lambda query: limits_with(query.resource, query.per, {"team": query.team, "key": query.key, "model": query.model}),
            example={"scope": {"team": "search"}, "resource": "cost_usd", "amount": 500, "per": "month"},
            patch_example={"amount": 800},
            identified={"name": "budget of search"},
            normalize=normalize_limit,
            # Roles within a team do not read the configuration, and do read what their team is held to.
            read_permission="teams:read",
            visible=limits_of_teams,
            gateway_settings=settings,
        )
    )
