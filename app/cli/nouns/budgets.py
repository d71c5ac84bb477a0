"""narthex budgets: what may be spent in a day, week or month, and what was."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import click
import msgspec

from app.billing.cost import format_usd
from app.cli.confirmation import confirm, yes_option
from app.cli.errors import OrderedGroup
from app.cli.nouns.configuration_change import change_and_report
from app.cli.output import json_option, print_json, print_table, printable
from app.domain.limits import Limit
from app.gateway.limits.budgets import BudgetUsage, read_budget_usage, rules_of
from app.gateway.limits.counters.stored_values import read_stored_values
from app.settings import Settings
from app.store.configuration import configuration
from app.store.configuration.entries import LIMITS
from app.store.configuration.limit_rows import StoredLimit, read_limits
from app.store.limits.limit_overrides import read_overrides
from app.store.postgres.calendar_periods import CALENDAR_UNITS, CalendarUnit
from app.store.postgres.database import create_database_engine
from app.supervisor.database_query import query_database
from app.supervisor.machine import server_addresses
from app.supervisor.machine.errors import OperatorError

_READ_TIMEOUT_S = 60.0


@click.group(cls=OrderedGroup)
def budgets() -> None:
    """Set budgets, and show what is spent of them.

    A budget is a limit on cost: so many US dollars in a day, week or month, for each member of its scope. It is exact, as all limits are:
    requests beyond it are refused. docs/budgets.md is a guide.
    """


@budgets.command("list")
@json_option
def list_budgets(as_json: bool) -> None:
    """List budgets, with what is spent of each.

    Of a budget for each team, key or value of a tag: by the one that has spent most.

    \b
    Example:
      narthex budgets list

    With --json: {"budgets": [{"name", "scope", "amount", "per", "time_zone", "dry_run", "usage": {"subject", "period_start",
    "period_end", "counted_since", "amount_usd", "spent_usd", "recorded_usd", "reserved_usd", "remaining_usd", "percent",
    "forecast_usd", "override"} or null}]}.
    """
    stored, usage = _read_usage(None, most=1)
    if as_json:
        documents: list[dict[str, Any]] = []
        for each in stored:
            limit, used = each.limit, usage.get(each.limit.name)
            named = {"name": limit.name, "scope": limit.scope, "amount": limit.amount, "per": limit.per, "time_zone": limit.time_zone}
            documents.append({**named, "dry_run": limit.dry_run, "usage": used[0] if used else None})
        print_json({"budgets": documents})
    elif not stored:
        click.echo("There are no budgets yet; `narthex budgets set -h` shows how to make one.")
    else:
        cells: list[tuple[str, ...]] = []
        for each in stored:
            used = usage.get(each.limit.name)
            name = f"{each.limit.name} (report only)" if each.limit.dry_run else each.limit.name
            cells.append((name, _scope(each.limit.scope), each.limit.per or "", *_usage_cells(used[0] if used else None)))
        print_table(("BUDGET", "SCOPE", "PER", "SPENT MOST", "AMOUNT", "SPENT", "RESERVED", "LEFT", "%", "FORECAST"), cells)


@budgets.command("subjects")
@click.argument("name")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="Most subjects.")
@json_option
def list_subjects(name: str, limit: int, as_json: bool) -> None:
    """List who has spent of budget NAME in its present period.

    Those who spent most come first: teams, keys, models or values of a tag, as its scope says.

    \b
    Example:
      narthex budgets subjects "each team"

    With --json: {"subjects": [{"subject", "period_start", "period_end", "counted_since", "amount_usd", "spent_usd", "recorded_usd",
    "reserved_usd", "remaining_usd", "percent", "forecast_usd", "override"}]}.
    """
    stored, usage = _read_usage([name], most=limit)
    if not stored:
        raise OperatorError(f"There is no budget {name!r}; `narthex budgets list` lists them.")
    found = usage.get(name, ())
    if as_json:
        print_json({"subjects": found})
    elif not found:
        click.echo("Nobody has spent of it in this period.")
    else:
        print_table(("WHO", "AMOUNT", "SPENT", "RESERVED", "LEFT", "%", "FORECAST"), [_usage_cells(each) for each in found])


@budgets.command("set")
@click.argument("name")
@click.option(
    "--for",
    "scope",
    metavar="NAME=VALUE",
    multiple=True,
    help="team=search, key=nx-..., model=NAME, function=NAME or tag:NAME=VALUE; the value each: one for each of them; all: one for"
    " everything. Can be repeated: all must match.",
)
@click.option("--amount", metavar="USD", type=float, help="US dollars.")
@click.option("--per", type=click.Choice(CALENDAR_UNITS), help="The period; weeks begin on Monday. Default: month.")
@click.option("--time-zone", metavar="ZONE", help="Of the period, such as Europe/Berlin. Default: UTC.")
@click.option("--report-only/--enforced", "dry_run", default=None, help="Count and report only, or refuse what is beyond it (default).")
@json_option
def set_budget(
    name: str,
    scope: Sequence[str],
    amount: float | None,
    per: CalendarUnit | None,
    time_zone: str | None,
    dry_run: bool | None,
    as_json: bool,
) -> None:
    """Set budget NAME; a new NAME creates it, and what is not given stays.

    Returns once every gateway process goes by it. A change of the amount counts what was spent before; a change of the scope or period
    begins at nothing.

    \b
    Examples:
      narthex budgets set "search, November" --for team=search --amount 500
      narthex budgets set "each key" --for key=each --amount 20 --per week --time-zone Europe/Berlin
      narthex budgets set tenants --for tag:tenant=each --amount 100
      narthex budgets set company --for all --amount 10000

    With --json: {"name", "version" or null, "message", "warnings"}.
    """
    wanted_scope = _parse_scope(scope)
    changes = {"amount": amount, "per": per, "time_zone": time_zone, "dry_run": dry_run, "scope": wanted_scope or None}
    given = {field: value for field, value in changes.items() if value is not None}
    if not given:
        raise click.UsageError("Nothing to set: give --amount, --for, --per, --time-zone, --report-only or --enforced.")

    def edit(state: configuration.State) -> configuration.State:
        before = next((limit for limit in state.snapshot.limits if limit.name == name), None)
        if before is not None and before.resource != "cost_usd":
            raise OperatorError(f"{name!r} is a limit of {before.resource}, not a budget.")
        if before is None and not {"amount", "scope"} <= given.keys():
            raise OperatorError(f"There is no budget {name!r}: a new one needs --amount and --for.")
        limit = Limit(name, {}, "cost_usd", 0, "month") if before is None else before
        return LIMITS.replace(state, {"name": name}, msgspec.structs.replace(limit, **given))

    change_and_report(name, edit, as_json=as_json)


@budgets.command("remove")
@click.argument("name")
@yes_option
@json_option
def remove_budget(name: str, yes: bool, as_json: bool) -> None:
    """Remove budget NAME: what it limited is no longer limited by it.

    \b
    Example:
      narthex budgets remove "search, November"

    With --json (which needs --yes): {"name", "version", "message", "warnings"}.
    """
    confirm(f"Remove the budget {name!r}?", yes=yes, as_json=as_json)

    def edit(state: configuration.State) -> configuration.State:
        if not any(limit.name == name and limit.resource == "cost_usd" for limit in state.snapshot.limits):
            raise OperatorError(f"There is no budget {name!r}; `narthex budgets list` lists them.")
        return LIMITS.replace(state, {"name": name}, None)

    change_and_report(name, edit, as_json=as_json)


def _read_usage(names: Sequence[str] | None, most: int) -> tuple[list[StoredLimit], Mapping[str, Sequence[BudgetUsage]]]:
    settings = server_addresses.resolve(Settings.read())

    async def read(database_url: str) -> tuple[list[StoredLimit], Mapping[str, Sequence[BudgetUsage]]]:
        database = create_database_engine(database_url, command_timeout_s=_READ_TIMEOUT_S)
        try:
            async with database.connect() as connection:
                # All of them, as the ids of rules that count the same depend on each other.
                rules = rules_of(await read_limits(connection), await read_overrides(connection, None), {})
                stored = await read_limits(connection, names, resource="cost_usd")
                shown = {each.limit.name for each in stored}
                wanted = [rule for rule in rules if rule.name in shown]
                now_ms = int(time.time() * 1000)
                return stored, await read_budget_usage(
                    connection, wanted, lambda keys: read_stored_values(settings.redis_url, keys), now_ms, most=most
                )
        finally:
            await database.dispose()

    return query_database(settings.database_url, read)


def _parse_scope(options: Sequence[str]) -> dict[str, str]:
    scope: dict[str, str] = {}
    for option in options:
        name, separator, value = ("all", "=", "each") if option == "all" else option.partition("=")
        if not separator or not name or not value:
            raise click.BadParameter("it must be all, or NAME=VALUE, such as team=search or tag:tenant=each", param_hint="--for")
        scope[name] = value
    return scope


def _scope(scope: Mapping[str, str]) -> str:
    return ", ".join("all" if name == "all" else f"{name}={value}" for name, value in scope.items())


def _usage_cells(usage: BudgetUsage | None) -> tuple[str, ...]:
    if usage is None:
        return ("", "", "", "", "", "", "")
    reserved, forecast = ("" if each is None else _usd(each) for each in (usage.reserved_usd, usage.forecast_usd))
    return (
        printable(_scope(usage.subject) or "all"),
        *(_usd(usage.amount_usd), _usd(usage.spent_usd), reserved, _usd(usage.remaining_usd)),
        f"{usage.percent:g}",
        forecast,
    )


def _usd(amount: float) -> str:
    return format_usd(round(amount * 1_000_000)).decode()
