"""Budgets: /admin/v1/budgets and /admin/v1/budgets/{name}: the limits whose resource is cost_usd, and no others."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from app.api.admin.configuration_entries import EntryResource
from app.api.admin.limits import LimitSettings, LimitSort, ScopeFilter
from app.api.admin.providers import Name, Search
from app.api.rest.operation import Operation
from app.domain import Period
from app.gateway.serve import Gateway
from app.store.config_file import normalize_limit
from app.store.configuration_entries import LIMITS, limits_of_teams, limits_with
from app.store.paging import After
from app.store.paging import Limit as PageLimit


class BudgetSettings(LimitSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything that can be set of a budget; what is left out gets its default."""

    resource: Literal["cost_usd"] = "cost_usd"
    amount: Annotated[float, Meta(description="US dollars that may be spent in any period.")]
    per: Annotated[Period, Meta(description="Days and months are by the calendar.")] = "month"


class NewBudget(BudgetSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A budget to create."""

    name: Name


class BudgetEntry(BudgetSettings, frozen=True, kw_only=True):
    """A budget: a limit on what is spent."""

    name: str
    created_at: str
    updated_at: str


class BudgetQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: PageLimit = 100
    after: After | None = None
    sort: LimitSort = "position"
    search: Search | None = None
    per: Period | None = None
    team: ScopeFilter | None = None
    key: ScopeFilter | None = None
    model: ScopeFilter | None = None


def operations(gateway: Gateway) -> list[Operation[Any, Any]]:
    return EntryResource(
        section=LIMITS,
        noun="budget",
        path="/budgets",
        key_path="/{name}",
        tag="Limits",
        settings=BudgetSettings,
        new=NewBudget,
        shown=BudgetEntry,
        query=BudgetQuery,
        conditions=lambda query: limits_with(None, query.per, {"team": query.team, "key": query.key, "model": query.model}),
        only=limits_with("cost_usd", None, {}),
        example={"scope": {"team": "search"}, "amount": 500},
        patch_example={"amount": 800},
        identified={"name": "budget of search"},
        key_fields=("name",),
        normalize=normalize_limit,
        # As of limits.
        read_permission="teams:read",
        visible=limits_of_teams,
        gateway=gateway,
    ).operations()
