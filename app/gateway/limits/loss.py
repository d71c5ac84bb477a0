"""Loss of Redis's memory: which rules had counted something, and until when they may refuse.

Nothing here does I/O.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from app.gateway.limits.rules import CALENDAR, WINDOW, Rule
from app.store.usage.by_slot import SlotUsage

_MAX_AMOUNT = 2**53


class LossState(Struct, frozen=True):
    """The state after a loss, as reported to those who operate the gateway."""

    rules: int  # how many refuse everything
    lost_ms: int  # since when
    until_ms: int  # until when at the latest
    # What has to happen before they are rebuilt; None if they stay full by their `after_loss`.
    waiting_for: str | None

    def summary(self) -> Mapping[str, Any]:
        """Returns the state as fields of a JSON object that anybody may see."""
        return {
            "rules": self.rules,
            "since": _to_text(self.lost_ms),
            "until": _to_text(self.until_ms),
            "waiting_for": self.waiting_for,
        }


def find_full_rules(rules: Sequence[Rule], epoch_ms: int, now_ms: int, rebuilt: Collection[str]) -> list[Rule]:
    """The windows that count as full, as what was used before this epoch is not known; and periods that do so by their rule."""
    return [rule for rule in rules if epoch_ms > rule.lost_nothing_until_ms and now_ms < _full_until_ms(rule, epoch_ms, now_ms, rebuilt)]


def describe_loss(full_rules: Sequence[Rule], epoch_ms: int, now_ms: int, waiting_for: str) -> LossState | None:
    """Returns the state after a loss, or None if no rule refuses because of one."""
    refusing = [rule for rule in full_rules if not rule.limit.dry_run]
    if not refusing:
        return None
    return LossState(
        len(refusing),
        epoch_ms,
        max(_full_until_ms(rule, epoch_ms, now_ms, ()) for rule in refusing),
        None if all(rule.stays_full for rule in refusing) else waiting_for,
    )


def slot_amounts(rule: Rule, used: Sequence[SlotUsage]) -> list[tuple[int, int]]:
    """Slots of a window, each with what was used in it of the rule's resource since the rule began."""
    width_ms = rule.window_ms / 16
    amounts: list[tuple[int, int]] = []
    for each in used:
        if (each.slot + 1) * width_ms > rule.since_ms:
            counts = (each.requests, each.input, each.output, each.input + each.output, each.cost_microusd)
            amounts.append((each.slot, min(counts[rule.resource - 1], _MAX_AMOUNT)))
    return [(slot, amount) for slot, amount in amounts if amount > 0]


def _full_until_ms(rule: Rule, epoch_ms: int, now_ms: int, rebuilt: Collection[str]) -> int:
    """Returns until when a rule counts as full, or 0 if it does not."""
    if rule.kind == WINDOW and (rule.stays_full or rule.id not in rebuilt):
        return epoch_ms + rule.window_ms + 1
    if rule.kind == CALENDAR and rule.stays_full:
        start_ms, finish_ms, _ = rule.period_at(now_ms)
        return finish_ms if start_ms < epoch_ms else 0
    return 0


def _to_text(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")
