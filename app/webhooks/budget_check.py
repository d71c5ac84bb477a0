"""The budget check: finds subjects whose recorded spending has reached a threshold of a webhook, and creates an event for each, once.

By the records in Postgres, and not by what Redis counts: so a notice is of money that was spent, and none is lost with Redis's memory.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from app.gateway.limits.budgets import Spent, is_budget, read_spent, rules_of
from app.gateway.limits.rules import Rule
from app.process.thread_steps import run_in_steps
from app.store.configuration.limit_rows import read_limits
from app.store.configuration.snapshots import read_version
from app.store.limits.limit_overrides import read_overrides
from app.store.usage.spending import PartialHours, read_active
from app.store.webhooks.webhook_events import add_event, lock_budget_check
from app.store.webhooks.webhooks import Webhook, read_enabled

_MICROUSD = 1_000_000
_MAX_NEW_EVENTS = 500  # in one transaction; the next check goes on
_MAX_KNOWN = 100_000
_CHECK_ALL_EVERY_S = 3600.0
_LATELY = timedelta(hours=2)


class Reached(Struct, frozen=True):
    """A threshold, in percent of the amount in force, that a subject has reached."""

    spent: Spent
    amount: int
    threshold: int

    @property
    def once(self) -> tuple[Any, ...]:
        """The key that makes two notices the same.

        Another amount, by a change or an override, has thresholds of its own.
        """
        rule = self.spent.rule
        of_rule = (rule.name, rule.limit.per, rule.limit.time_zone)
        return (*of_rule, *self.spent.values.items(), self.spent.start_ms, self.amount, self.threshold)


class BudgetCheck:
    """check() once in a while. What it reads of the configuration is kept until that changes."""

    def __init__(self, database: AsyncEngine) -> None:
        self._database = database
        self._version: int | None = None
        self._rules: Sequence[Rule] = ()
        self._checked_all_s = float("-inf")
        self._known: set[tuple[Any, ...]] = set()
        self._partial_hours = PartialHours()

    async def check(self) -> int:
        """Returns how many events were created, which is 0 also while another process checks."""
        async with self._database.connect() as connection:
            webhooks = await read_enabled(connection)
            if not webhooks:
                return 0
            await self._read_rules(connection)
            now_ms = int(time.time() * 1000)
            lowest = min(min(each.thresholds) for each in webhooks)
            rules = [rule for rule in self._rules if any(_wants(each, rule) for each in webhooks)]
            rules = await self._without_idle(connection, rules)
            spent = await read_spent(connection, rules, now_ms, least_percent=lowest, partial_hours=self._partial_hours)
        new = [each for each in _find_reached(spent, webhooks, now_ms) if each.once not in self._known]
        if not new:
            return 0
        async with self._database.begin() as connection:
            if not await lock_budget_check(connection):
                return 0
            created = [await _create(connection, each, webhooks) for each in new[:_MAX_NEW_EVENTS]]
        if len(self._known) > _MAX_KNOWN:
            self._known.clear()
        self._known.update(each.once for each in new[:_MAX_NEW_EVENTS])
        return sum(created)

    async def _without_idle(self, connection: AsyncConnection, rules: Sequence[Rule]) -> Sequence[Rule]:
        """Returns the rules without those of one key or team that has used nothing lately.

        There may be one such rule for each of many thousand keys. Now and then, and when the configuration
        has changed, all rules are returned: what other machines had spooled is stored late.
        """
        if time.monotonic() - self._checked_all_s > _CHECK_ALL_EVERY_S:
            self._checked_all_s = time.monotonic()
            return rules
        keys, teams = await read_active(connection, datetime.now(UTC) - _LATELY)
        active = {"key": keys, "team": teams}
        return [rule for rule in rules if all(value in active.get(name, (value,)) for name, value in rule.fixed_dimensions)]

    async def _read_rules(self, connection: AsyncConnection) -> None:
        version = await read_version(connection)
        if version == self._version:
            return
        stored, overrides = await read_limits(connection, resource="cost_usd"), await read_overrides(connection, None)
        self._rules = await run_in_steps(lambda: [rule for rule in rules_of(stored, overrides, {}) if is_budget(rule)])
        self._version = version
        self._checked_all_s = float("-inf")


def _wants(webhook: Webhook, rule: Rule) -> bool:
    return webhook.budgets is None or rule.name in webhook.budgets


def _find_reached(spent: Sequence[Spent], webhooks: Sequence[Webhook], now_ms: int) -> Iterator[Reached]:
    for each in spent:
        amount = each.amount_at(now_ms)
        thresholds = {threshold for webhook in webhooks if _wants(webhook, each.rule) for threshold in webhook.thresholds}
        for threshold in sorted(thresholds):
            if each.microusd * 100 >= threshold * amount:
                yield Reached(each, amount, threshold)


async def _create(connection: AsyncConnection, reached: Reached, webhooks: Sequence[Webhook]) -> bool:
    ids = [each.id for each in webhooks if _wants(each, reached.spent.rule) and reached.threshold in each.thresholds]
    return await add_event(connection, "budget.threshold_reached", describe(reached), ids, reached.once) is not None


def describe(reached: Reached) -> Mapping[str, Any]:
    """Writes the `data` of the event, as docs/budgets.md has it."""
    spent, limit = reached.spent, reached.spent.rule.limit
    start, end = (
        datetime.fromtimestamp(ms / 1000, UTC).astimezone(spent.rule.zone).isoformat(timespec="seconds")
        for ms in (spent.start_ms, spent.finish_ms)
    )
    return {
        "budget": limit.name,
        "subject": spent.shown_subject,
        "threshold_percent": reached.threshold,
        "percent": round(100 * spent.microusd / reached.amount, 2),
        "amount_microusd": reached.amount,
        "amount_usd": reached.amount / _MICROUSD,
        "spent_microusd": spent.microusd,
        "spent_usd": spent.microusd / _MICROUSD,
        "period": {"per": limit.per, "time_zone": limit.time_zone, "start": start, "end": end},
        "enforced": not limit.dry_run,
    }
