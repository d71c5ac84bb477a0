"""Budgets in use: what subjects have spent of limits on cost in their calendar period, by the records, and what Redis holds for requests.

What is shown is of one moment: as Redis counts it, by which requests are admitted. It knows what requests in progress reserve, and what
one has cost that has just ended, moments before it is recorded. Without Redis, or where it has yet to read what was spent before it lost
its memory, the records say what is spent. Who has spent is read from Postgres, whose sums are the source of truth for costs.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain.limits import LimitOverride
from app.gateway.limits.rules import CALENDAR, RESOURCES, Rule, RuleOverride, RuleTable
from app.store.configuration.limit_rows import StoredLimit, counted_as
from app.store.usage.spending import PartialHours, Subject, read_spending

# The raw values of keys in Redis; None: Redis is unavailable.
ReadCounts = Callable[[Sequence[bytes]], Awaitable[Sequence[bytes | None] | None]]

_COST = RESOURCES.index("cost_usd") + 1
_MICROUSD = 1_000_000
_QUARTER_MS = 900_000
_MIN_FORECAST_S = 3600.0


class OverrideInForce(Struct, frozen=True):
    """Another amount for the subject, until a time."""

    id: str
    ends_at: str


class BudgetUsage(Struct, frozen=True):
    """The part of a budget that a subject has used in the present period.

    `subject` holds the values of the budget's scope. `counted_since` is the start of the period, or a later
    one of the rule. `spent_usd` is spent by requests that have ended; `reserved_usd` is held by those in
    progress, or null if Redis is unavailable; `remaining_usd` is what the limit still lets pass. These are of
    one moment, and add up to the amount, unless more than that is spent. `recorded_usd` is spent according to
    the records, which have a request moments after it has ended. `percent` is the share of the amount that is
    spent. `forecast_usd` is what will be spent by the end of the period if it goes on as so far, or null if
    it is too early to say. `override` is why `amount_usd` is not the budget's own, or null if it is.
    """

    subject: Mapping[str, str]
    period_start: str
    period_end: str
    counted_since: str
    amount_usd: float
    spent_usd: float
    recorded_usd: float
    reserved_usd: float | None
    remaining_usd: float
    percent: float
    forecast_usd: float | None
    override: OverrideInForce | None


class Spent(Struct, frozen=True):
    """The amount that a subject has spent of a rule, since a moment in a period. Times are Unix time in ms."""

    rule: Rule
    subject: Subject
    microusd: int
    start_ms: int
    finish_ms: int
    since_ms: int

    @property
    def values(self) -> dict[str, str]:
        return dict(zip(self.rule.dimension_names, self.subject, strict=True))

    @property
    def each(self) -> tuple[str, ...]:
        """The values by which the rule tells subjects apart."""
        values = self.values
        return tuple(values[name] for name in self.rule.each_dimensions)

    @property
    def key(self) -> bytes:
        return self.rule.key(self.each)

    @property
    def shown_subject(self) -> dict[str, str]:
        return {name: f"nx-{value}" if name == "key" else value for name, value in self.values.items()}

    def override_at(self, now_ms: int) -> RuleOverride | None:
        override = self.rule.overrides.get(self.each)
        return override if override is not None and now_ms < override.until_ms else None

    def amount_at(self, now_ms: int) -> int:
        override = self.override_at(now_ms)
        return self.rule.amount if override is None else override.amount


def is_budget(rule: Rule) -> bool:
    """Whether it limits cost in a calendar period."""
    return rule.kind == CALENDAR and rule.resource == _COST


def rules_of(stored: Sequence[StoredLimit], overrides: Sequence[LimitOverride], in_force: Mapping[str, Rule]) -> list[Rule]:
    """Rules of stored limits, as they are counted: those in force, but for limits that this process has yet to read."""
    since = {each.limit.name: each.since_ms for each in stored if each.since_ms is not None}
    new = RuleTable([each.limit for each in stored], since, overrides=overrides, counted_as=counted_as(stored))
    return [_same_or_new(in_force.get(rule.name), rule) for rule in new.rules]


def _same_or_new(known: Rule | None, rule: Rule) -> Rule:
    """Returns the `known` rule with the overrides of `rule` if both count the same, and else `rule`.

    Of several that count the same, only those in force have the right ids.
    """
    if known is None or (known.limit, known.since_ms, known.counted_name) != (rule.limit, rule.since_ms, rule.counted_name):
        return rule
    return known if known.overrides == rule.overrides else msgspec.structs.replace(known, overrides=rule.overrides)


async def read_budget_usage(
    connection: AsyncConnection,
    rules: Sequence[Rule],
    read_counts: ReadCounts,
    now_ms: int,
    *,
    teams: Collection[str] | None = None,
    most: int = 1,
) -> dict[str, list[BudgetUsage]]:
    """Returns, by name of the rule, the `most` subjects that have spent most of it.

    A rule for one subject has that one, even if it spent nothing. `teams` leaves only subjects of these
    teams; None leaves all. Rules that are no budgets are left out.
    """
    budgets = [rule for rule in rules if is_budget(rule) and (teams is None or {"team", "key"} & set(rule.dimension_names))]
    spent = await read_spent(connection, budgets, now_ms, teams=teams, most=most)
    raw = await read_counts([each.key for each in spent]) if spent else ()
    usage: dict[str, list[BudgetUsage]] = {rule.name: [] for rule in budgets}
    for index, each in enumerate(spent):
        usage[each.rule.name].append(_to_usage(each, None if raw is None else _Counts.read(raw[index], each.start_ms, now_ms), now_ms))
    return usage


async def read_spent(
    connection: AsyncConnection,
    budgets: Sequence[Rule],
    now_ms: int,
    *,
    teams: Collection[str] | None = None,
    most: int | None = None,
    least_percent: int = 0,
    partial_hours: PartialHours | None = None,
) -> list[Spent]:
    """Returns the subjects that have spent most of each rule in its present period.

    A rule for one subject always has that one. `least_percent` ignores what a subject has spent if it is less
    than that share of the lowest amount of the rules that are read together. A rule for one subject
    has nothing spent in that case.
    """
    spent: list[Spent] = []
    for group in _group(budgets, now_ms):
        least = least_percent * _lowest_amount(group) // 100 if least_percent else None
        spent += await _read_group(connection, group, now_ms, teams, most, least, partial_hours)
    return spent


def _group(rules: Sequence[Rule], now_ms: int) -> list[list[Rule]]:
    """Rules that one query serves: each for one subject, of the same dimensions, since the same moment. Others are alone."""
    groups: dict[Any, list[Rule]] = {}
    for rule in rules:
        alone = rule.name if rule.each_dimensions else None
        groups.setdefault((rule.dimension_names, _since_ms(rule, now_ms), alone), []).append(rule)
    return list(groups.values())


def _lowest_amount(rules: Sequence[Rule]) -> int:
    return min(amount for rule in rules for amount in (rule.amount, *(each.amount for each in rule.overrides.values())))


async def _read_group(
    connection: AsyncConnection,
    rules: Sequence[Rule],
    now_ms: int,
    teams: Collection[str] | None,
    most: int | None,
    least: int | None,
    partial_hours: PartialHours | None,
) -> list[Spent]:
    names, since_ms = rules[0].dimension_names, _since_ms(rules[0], now_ms)
    fixed = [dict(rule.fixed_dimensions) for rule in rules]
    values = {name: {each[name] for each in fixed} for name in fixed[0]}
    is_each = bool(rules[0].each_dimensions)
    since = datetime.fromtimestamp(since_ms / 1000, UTC)
    by_subject = await read_spending(
        connection, names, since, values, teams=teams, most=most if is_each else None, least=least, partial_hours=partial_hours
    )
    spent: list[Spent] = []
    for rule, own in zip(rules, fixed, strict=True):
        start_ms, finish_ms, _ = rule.period_at(now_ms)
        found = by_subject.items() if is_each else [(subject := tuple(own[name] for name in names), by_subject.get(subject, 0))]
        spent += (Spent(rule, subject, microusd, start_ms, finish_ms, since_ms) for subject, microusd in found)
    return spent


def _since_ms(rule: Rule, now_ms: int) -> int:
    return max(rule.period_at(now_ms)[0], rule.since_ms)


class _Counts(Struct, frozen=True):
    """A calendar bucket of Redis: see rings.lua."""

    counted: int | None  # None: it lacks what was spent before Redis lost its memory
    reserved: int

    @staticmethod
    def read(raw: bytes | None, start_ms: int, now_ms: int) -> "_Counts":
        if raw is None:
            return _Counts(None, 0)
        bucket: list[float] = msgspec.msgpack.decode(raw)
        if bucket[0] != start_ms:
            return _Counts(None, 0)
        reserved = 0.0
        if len(bucket) > 5:
            quarters_ago = now_ms // _QUARTER_MS - bucket[5]
            reserved = bucket[3] + bucket[4] if quarters_ago <= 0 else bucket[3] if quarters_ago == 1 else 0
        return _Counts(int(bucket[1]) if bucket[2] == 1 else None, int(reserved))


def _to_usage(spent: Spent, counts: _Counts | None, now_ms: int) -> BudgetUsage:
    override = spent.override_at(now_ms)
    amount, reserved = spent.amount_at(now_ms), 0 if counts is None else counts.reserved
    # Of one moment: what Redis counts, or what is recorded.
    microusd = spent.microusd if counts is None or counts.counted is None else max(0, counts.counted - reserved)
    elapsed_s = (now_ms - spent.since_ms) / 1000
    total_s = (spent.finish_ms - spent.since_ms) / 1000
    return BudgetUsage(
        subject=spent.shown_subject,
        period_start=_to_text(spent.start_ms, spent.rule),
        period_end=_to_text(spent.finish_ms, spent.rule),
        counted_since=_to_text(spent.since_ms, spent.rule),
        amount_usd=amount / _MICROUSD,
        spent_usd=microusd / _MICROUSD,
        recorded_usd=spent.microusd / _MICROUSD,
        reserved_usd=None if counts is None else reserved / _MICROUSD,
        remaining_usd=max(0, amount - microusd - reserved) / _MICROUSD,
        percent=round(100 * microusd / amount, 2),
        forecast_usd=None if elapsed_s < _MIN_FORECAST_S else round(microusd / _MICROUSD * total_s / elapsed_s, 6),
        override=None if override is None else OverrideInForce(override.id, _to_text(override.until_ms, spent.rule)),
    )


def _to_text(ms: int, rule: Rule) -> str:
    return datetime.fromtimestamp(ms / 1000, rule.zone).isoformat(timespec="seconds")
