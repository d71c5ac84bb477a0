"""How a caller stands with its budgets: the fullest rule about cost that counts a day, week or month."""

from collections.abc import Sequence
from typing import Any, cast

from msgspec import Struct

from app.gateway.limits.rules import CALENDAR, RESOURCES, Rule
from app.store.postgres.calendar_periods import CalendarUnit

_COST = RESOURCES.index("cost_usd") + 1


class BudgetRule(Struct, frozen=True):
    """A budget among the rules that match a request."""

    index: int  # in its match
    amount_microusd: int
    period: CalendarUnit
    resets_at_ms: int  # Unix time, by Redis's clock


class BudgetStanding(Struct, frozen=True):
    """The share of a budget that is used, with what the request itself holds."""

    utilization: float  # from 0 to 1
    period: CalendarUnit
    resets_at_s: int  # Unix time


def budget_period(rule: Rule) -> CalendarUnit | None:
    """Returns what a budget is for; None: the rule is no budget."""
    return cast(CalendarUnit, rule.limit.per) if rule.kind == CALENDAR and rule.resource == _COST else None


def budget_rules(rules: Sequence[Rule], now_ms: float) -> tuple[BudgetRule, ...]:
    """Returns the budgets among the rules of a match. Dry runs are left out: they refuse nothing."""
    return tuple(
        BudgetRule(index, rule.amount, period, rule.period_at(now_ms)[1])
        for index, rule in enumerate(rules)
        if (period := budget_period(rule)) is not None and rule.amount and not rule.limit.dry_run
    )


def fullest_budget(replies: Sequence[tuple[Sequence[BudgetRule], list[Any]]]) -> BudgetStanding | None:
    """Returns the standing with the budget that has the smallest share left; None: no budget applies, or none was counted.

    `replies` are those of take.lua to requests that were admitted: two numbers for each bucket, of which the first is what is left.
    """
    standings = [
        BudgetStanding(1 - max(reply[3 + 2 * rule.index], 0) / rule.amount_microusd, rule.period, rule.resets_at_ms // 1000)
        for rules, reply in replies
        if reply
        for rule in rules
    ]
    return max(standings, key=lambda each: each.utilization, default=None)
