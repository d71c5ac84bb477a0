"""A loss of Redis's memory decides which rules count as full and until when, and what of the records fills them."""

from datetime import UTC, datetime
from typing import Any

import pytest

from app.domain.limits import Limit
from app.gateway.limits.loss import describe_loss, find_full_rules, slot_amounts
from app.gateway.limits.rules import CLOCK_MARGIN_MS, RuleTable
from app.store.usage.by_slot import SlotUsage

NOON_MS = int(datetime(2026, 11, 20, 12, tzinfo=UTC).timestamp() * 1000)
MIDNIGHT_MS = int(datetime(2026, 11, 21, tzinfo=UTC).timestamp() * 1000)
EACH_KEY = {"key": "each"}


def make_table(**since: int) -> RuleTable:
    limits = [
        Limit("minute", EACH_KEY, "requests", 5, "minute"),
        Limit("hour", EACH_KEY, "requests", 5, "hour"),
        Limit("tried", EACH_KEY, "requests", 5, "hour", dry_run=True),
        Limit("spent", EACH_KEY, "tokens", 5, "hour", after_loss="spent"),
        Limit("empty", EACH_KEY, "tokens", 5, "hour", after_loss="empty"),
        Limit("day", EACH_KEY, "requests", 5, "day"),
        Limit("spent day", EACH_KEY, "requests", 5, "day", after_loss="spent"),
        Limit("empty month", EACH_KEY, "requests", 5, "month", after_loss="empty"),
        Limit("slots", EACH_KEY, "concurrency", 5),
    ]
    return RuleTable(limits, since)


def full_names(table: RuleTable, after_ms: int, rebuilt: tuple[str, ...] = ()) -> list[str]:
    ids = {rule.id for rule in table.rules if rule.name in rebuilt}
    return [rule.name for rule in find_full_rules(table.rules, NOON_MS, NOON_MS + after_ms, ids)]


def test_rules_count_as_full_after_a_loss_until_they_are_rebuilt_or_have_passed():
    table = make_table()
    assert full_names(table, 1) == ["minute", "hour", "tried", "spent", "spent day"]
    assert full_names(table, 1, rebuilt=("minute", "hour", "spent")) == ["tried", "spent", "spent day"]
    assert full_names(table, 60_000) == ["minute", "hour", "tried", "spent", "spent day"]
    assert full_names(table, 60_001) == ["hour", "tried", "spent", "spent day"]
    assert full_names(table, 3_600_001) == ["spent day"]
    assert full_names(table, MIDNIGHT_MS - NOON_MS) == []


def test_no_rule_counts_as_full_where_nothing_was_lost():
    assert find_full_rules(make_table().rules, 0, NOON_MS, ()) == []


@pytest.mark.parametrize(("since_ms", "is_full"), [(0, True), (NOON_MS + CLOCK_MARGIN_MS - 1, True), (NOON_MS + CLOCK_MARGIN_MS, False)])
def test_rule_that_began_after_the_loss_lost_nothing(since_ms: int, is_full: bool):
    table = make_table(hour=since_ms)
    assert ("hour" in full_names(table, 1)) == is_full and "minute" in full_names(table, 1)


def test_loss_is_described_without_dry_runs_and_without_names():
    table = make_table()
    rules = find_full_rules(table.rules, NOON_MS, NOON_MS + 1, ())
    loss = describe_loss(rules, NOON_MS, NOON_MS + 1, "the records to be read")
    assert loss is not None and loss.summary() == {
        "rules": 4,
        "since": "2026-11-20T12:00:00+00:00",
        "until": "2026-11-21T00:00:00+00:00",
        "waiting_for": "the records to be read",
    }
    spent = describe_loss([rule for rule in rules if rule.stays_full], NOON_MS, NOON_MS + 1, "the records to be read")
    assert spent is not None and spent.waiting_for is None
    assert describe_loss([rule for rule in rules if rule.limit.dry_run], NOON_MS, NOON_MS + 1, "") is None


@pytest.mark.parametrize(
    ("resource", "amount"), [("requests", 1), ("input_tokens", 20), ("output_tokens", 300), ("tokens", 320), ("cost_usd", 4000)]
)
def test_slots_hold_the_amount_of_the_rules_resource(resource: Any, amount: int):
    [rule] = RuleTable([Limit("r", EACH_KEY, resource, 5, "hour")]).rules
    assert slot_amounts(rule, [SlotUsage(8, 1, 20, 300, 4000), SlotUsage(9, 0, 0, 0, 0)]) == [(8, amount)]


def test_slots_that_ended_before_the_rule_began_hold_nothing():
    width_ms = 225_000
    slot = NOON_MS // width_ms
    used = [SlotUsage(slot + offset, 1, 0, 0, 0) for offset in (-2, -1, 0)]
    [rule] = RuleTable([Limit("r", EACH_KEY, "requests", 5, "hour")], {"r": slot * width_ms - 1 + CLOCK_MARGIN_MS}).rules
    assert slot_amounts(rule, used) == [(slot - 1, 1), (slot, 1)]


def test_slot_amounts_stay_exact_in_redis():
    [rule] = RuleTable([Limit("r", EACH_KEY, "cost_usd", 5, "hour")]).rules
    assert slot_amounts(rule, [SlotUsage(1, 1, 0, 0, 2**60)]) == [(1, 2**53)]
