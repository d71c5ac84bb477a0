"""Turns `[[rate_limiting.rules]]` into limits."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from app.domain.limits import Limit, Period, Resource
from app.imports.cost_limits import add_cost_limit
from app.imports.draft import Draft
from app.imports.source_table import SourceTable

_RESOURCES: Mapping[str, Resource] = {"model_inferences": "requests", "tokens": "tokens", "cost": "cost_usd"}
_PERIODS: tuple[Period, ...] = ("second", "minute", "hour", "day", "week", "month")
_EACH, _TOTAL = "tensorzero::each", "tensorzero::total"


class _Rule(Struct, frozen=True):
    """A limit that a rule became, with the rule's priority."""

    priority: int | None  # None: it always applies
    limit: Limit
    path: str


def add_limits(draft: Draft, config: SourceTable) -> None:
    """Adds the rate limits to the draft.

    In TensorZero, of the rules with priorities only the highest that match count. Here all limits count, so
    exceptions with larger amounts are left out.
    """
    section = config.table("rate_limiting")
    section.read("backend")
    for key in ("default_cost", "default_nano_cost"):
        section.leave_out(key, "What a request costs is reserved by its price and its `max_tokens`.")
    enabled = section.flag("enabled")
    rules = [rule for table in section.tables("rules") for rule in _read_rule(table)]
    lowest = min((rule.priority for rule in rules if rule.priority is not None), default=None)
    general = [rule.limit for rule in rules if rule.priority is None or rule.priority == lowest]
    for rule in rules:
        same = [each.amount for each in general if (each.resource, each.per) == (rule.limit.resource, rule.limit.per)]
        if rule.priority is not None and rule.priority != lowest and any(amount < rule.limit.amount for amount in same):
            draft.report.leave_out(
                rule.path,
                "All limits count, so it cannot allow more than a lower priority does: `narthex limits override` makes an exception.",
            )
            continue
        if enabled is False:
            draft.report.changed(rule.path, "Rate limits are off: the limit is a `dry_run`.")
        limit = Limit(rule.limit.name, rule.limit.scope, rule.limit.resource, rule.limit.amount, rule.limit.per, dry_run=enabled is False)
        if limit.resource == "cost_usd" and limit.per is not None:
            add_cost_limit(draft, limit, limit.per, rule.path)
        else:
            draft.add_limit(limit, rule.path)


def _read_rule(table: SourceTable) -> Iterator[_Rule]:
    priority = None if table.flag("always") else table.whole("priority") or 0
    scope = _read_scope(table)
    for name, resource in _RESOURCES.items():
        for per in _PERIODS:
            key = f"{name}_per_{per}"
            if key not in table:
                continue
            amount = _read_amount(table, key)
            if amount is not None and scope is not None:
                subject = " ".join(f"{dimension} {value}" for dimension, value in scope.items() if dimension != "all")
                title = f"{resource} per {per}{f' of {subject}' if subject else ''}"[:150]
                yield _Rule(priority, Limit(title, scope, resource, amount, per), table.path_of(key))


def _read_amount(table: SourceTable, key: str) -> float | None:
    if not isinstance(table.read(key), dict):
        return table.number(key)
    bucket = table.table(key)
    amounts = [amount for name in ("capacity", "refill_rate") if (amount := bucket.number(name)) is not None]
    if len(set(amounts)) > 1:
        table.report.changed(table.path_of(key), "A limit has no bucket: the smaller of capacity and refill_rate holds in any such window.")
    return min(amounts, default=None)


def _read_scope(table: SourceTable) -> dict[str, str] | None:
    """Returns the scope of a limit, or None if we cannot limit by it, which is then reported."""
    scope: dict[str, str] = {}
    valid = True
    for each in table.tables("scope"):
        tag, value, key = each.text("tag_key"), each.text("tag_value"), each.text("api_key_public_id")
        if tag is not None and value is not None and value != _TOTAL:
            scope[f"tag:{tag}"] = "each" if value == _EACH else value
        elif key == _EACH:
            scope["key"] = "each"
        else:
            valid = False
            each.mark_read()
            table.report.leave_out(
                each.path,
                "Keys are others here: name one by its public part, nx-... (`narthex keys list`)."
                if key is not None
                else "A tag limits each of its values, or one of them, not all values together.",
            )
    return (scope or {"all": "each"}) if valid else None
