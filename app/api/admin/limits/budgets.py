"""Budgets: /admin/v1/budgets and /admin/v1/budgets/{name}: the limits whose resource is cost_usd, with what is spent of them."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from app.api.admin.limits.limits import LimitSort, ScopeFilter
from app.api.rest.command import Command, Option
from app.api.rest.entry_operations import entry_operations
from app.api.rest.entry_resource import EntryResource
from app.api.rest.fields import Name, Search
from app.api.rest.operation import Answer, Call, NoBody, NoQuery, Operation
from app.api.rest.settings_types import entry_type, settings_type
from app.domain.limits import Limit, Period
from app.gateway.limits.budgets import BudgetUsage, ReadCounts, read_budget_usage, rules_of
from app.gateway.limits.rules import Rule
from app.settings import Settings
from app.store.configuration.config_file import normalize_limit
from app.store.configuration.entries import LIMITS, limits_of_teams, limits_with
from app.store.configuration.limit_rows import read_limits
from app.store.limits.limit_overrides import read_overrides
from app.store.postgres.paging import After, Page
from app.store.postgres.paging import Limit as PageLimit

_TIMEOUT_S = 20.0


class BudgetSettings(settings_type(Limit, ("name",)), frozen=True, kw_only=True):
    """Everything that can be set of a budget; what is left out gets its default."""

    resource: Literal["cost_usd"] = "cost_usd"
    amount: Annotated[float, Meta(description="US dollars that may be spent in any period.")]
    per: Annotated[Period, Meta(description="Days, weeks (from Monday) and months are by the calendar.")] = "month"


_ABOUT = "A budget: a limit on what is spent."


class BudgetQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: PageLimit = 100
    after: After | None = None
    sort: LimitSort = "position"
    search: Search | None = None
    per: Period | None = None
    team: ScopeFilter | None = None
    key: ScopeFilter | None = None
    model: ScopeFilter | None = None


class BudgetInUse(entry_type(BudgetSettings, "budget", _ABOUT, name=Name), frozen=True, kw_only=True):
    """A budget with what is spent of it, by the subject that has spent most."""

    usage: Annotated[
        BudgetUsage | None,
        Meta(description="Null: nobody has spent anything yet, or the budget is for no calendar period."),
    ]


class SubjectQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: PageLimit = 100


class BudgetSubjects(Struct, frozen=True):
    """The subjects that have spent of a budget in its present period; those who spent most come first.

    `has_more` means that there are more than `limit`.
    """

    data: Sequence[BudgetUsage]
    has_more: bool


class BudgetCounts(Struct, frozen=True):
    """The counts of budgets. `rules_in_force`: by name, those of a gateway process; None: this process counts nothing itself."""

    read_counts: ReadCounts
    rules_in_force: Callable[[], Mapping[str, Rule]] | None = None


class BudgetOperations:
    """Reads of budgets, with what is spent of them. `resource` has budgets as they are configured."""

    def __init__(self, resource: EntryResource[Limit], counts: BudgetCounts) -> None:
        self._resource = resource
        self._counts = counts

    async def page(self, call: Call[BudgetQuery, NoBody]) -> Answer:
        page: Page[Any] = (await self._resource.page(call)).body
        usage = await self._read_usage(call, [entry.name for entry in page.data], most=1)
        return Answer(Page([_in_use(entry, usage) for entry in page.data], page.next))

    async def show(self, call: Call[NoQuery, NoBody]) -> Answer:
        answer = await self._resource.show(call)
        usage = await self._read_usage(call, [answer.body.name], most=1)
        return msgspec.structs.replace(answer, body=_in_use(answer.body, usage))

    async def list_subjects(self, call: Call[SubjectQuery, NoBody]) -> Answer:
        name: str = (await self._resource.show(call)).body.name
        found = (await self._read_usage(call, [name], most=call.query.limit + 1)).get(name, ())
        return Answer(BudgetSubjects(found[: call.query.limit], len(found) > call.query.limit))

    async def _read_usage(self, call: Call[Any, Any], names: Sequence[str], most: int) -> Mapping[str, Sequence[BudgetUsage]]:
        in_force, read_counts = self._counts.rules_in_force, self._counts.read_counts
        # Without those in force all of them, as the ids of rules that count the same depend on each other.
        wanted = None if in_force is None else names
        stored, overrides = await read_limits(call.connection, wanted), await read_overrides(call.connection, wanted)
        rules = [each for each in rules_of(stored, overrides, {} if in_force is None else in_force()) if each.name in names]
        now_ms = int(time.time() * 1000)
        return await read_budget_usage(call.connection, rules, read_counts, now_ms, teams=call.visible_teams(), most=most)


def _in_use(entry: Any, usage: Mapping[str, Sequence[BudgetUsage]]) -> BudgetInUse:
    used = usage.get(entry.name)
    return BudgetInUse(**msgspec.structs.asdict(entry), usage=used[0] if used else None)


_SET = Command(
    name="budgets set",
    summary="Set budget NAME; a new NAME creates it, and what is not given stays.",
    help="Returns once every gateway process goes by it. A change of the amount counts what was spent before; a change of the scope or"
    " period begins at nothing.",
    examples=(
        'budgets set "search, November" --for team=search --amount 500',
        'budgets set "each key" --for key=each --amount 20 --per week --time-zone Europe/Berlin',
        "budgets set tenants --for tag:tenant=each --amount 100",
        "budgets set company --for all --amount 10000",
    ),
    options={
        "scope": Option(
            flag="--for",
            words={"all": {"all": "each"}},
            help="team=search, key=nx-..., model=NAME, function=NAME or tag:NAME=VALUE; the value each: one for each of them; all: one"
            " for everything. Can be repeated: all must match.",
        ),
        "dry_run": Option(flag="--report-only/--enforced", help="Count and report only, or refuse what is beyond it (default)."),
    },
    fixed={"resource": "cost_usd"},
    creates=True,
    creation_needs=("amount", "scope"),
    replaces=("scope",),
    done="The budget {name} is set.",
)
_COMMANDS: Mapping[str, Sequence[Command]] = {
    "list": (
        Command(
            summary="List budgets, with what is spent of each.",
            help="Of a budget for each team, key or value of a tag: by the one that has spent most.",
            examples=("budgets list",),
            options={"limit": Option(default="1000")},
            data="budgets",
            render="limits.budgets",
        ),
    ),
    "patch": (_SET,),
    "delete": (
        Command(
            name="budgets remove",
            summary="Remove budget NAME: what it limited is no longer limited by it.",
            examples=('budgets remove "search, November"',),
            confirm="Remove the budget {name!r}?",
            done="{name} is removed.",
        ),
    ),
}


def operations(settings: Settings, counts: BudgetCounts) -> list[Operation[Any, Any]]:
    resource = EntryResource(
        section=LIMITS,
        noun="budget",
        path="/budgets",
        key_path="/{name}",
        tag="Limits",
        own_settings=BudgetSettings,
        about=_ABOUT,
        counted=BudgetInUse,
        query=BudgetQuery,
        conditions=lambda query: limits_with(None, query.per, {"team": query.team, "key": query.key, "model": query.model}),
        only=limits_with("cost_usd", None, {}),
        example={"scope": {"team": "search"}, "amount": 500},
        patch_example={"amount": 800},
        identified={"name": "budget of search"},
        normalize=normalize_limit,
        # As of limits.
        read_permission="teams:read",
        visible=limits_of_teams,
        commands=_COMMANDS,
        gateway_settings=settings,
    )
    handlers = BudgetOperations(resource, counts)
    of_usage = (
        "With what is spent of it in the present period, by the subject that has spent most. What is spent, reserved and left is of one"
    )
    of_usage += " moment, as limits count it at once after a response; the records have it moments later."
    with_usage: dict[str, dict[str, Any]] = {
        "list_budgets": {"response": Page[BudgetInUse], "handler": handlers.page},
        "get_budget": {"response": BudgetInUse, "handler": handlers.show},
    }
    return [
        *(
            replace(each, description=of_usage, timeout_s=_TIMEOUT_S, **with_usage[each.id]) if each.id in with_usage else each
            for each in entry_operations(resource)
        ),
        Operation(
            method="GET",
            path="/budgets/{name}/subjects",
            id="list_budget_subjects",
            tag="Limits",
            summary="List who has spent of a budget",
            description="The keys, teams, models or values of a tag that have spent of it in the present period, those who spent most"
            " first. Roles within a team see those of their teams.",
            permission="teams:read",
            scope="team",
            query=SubjectQuery,
            response=BudgetSubjects,
            errors={404: "There is no such budget."},
            timeout_s=_TIMEOUT_S,
            commands=(
                Command(
                    name="budgets subjects",
                    summary="List who has spent of budget NAME in its present period.",
                    help="Those who spent most come first: teams, keys, models or values of a tag, as its scope says.",
                    examples=('budgets subjects "each team"',),
                    options={"limit": Option(default="20", help="Most subjects.")},
                    data="subjects",
                    render="limits.subjects",
                ),
            ),
            handler=handlers.list_subjects,
        ),
    ]
