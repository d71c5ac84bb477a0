"""What a caller is shown of the rules about it."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from app.gateway.limits.refusal import in_units
from app.gateway.limits.rule_matcher import RuleMatch
from app.gateway.limits.rules import LEASES
from app.store.counters.commands import Amounts


class RuleState(Struct, frozen=True):
    """A rule as its subject finds it. `needs`: of a request that was asked about. `wait_s`: until that passes; None: it never does."""

    rule: str
    scope: Mapping[str, str]
    resource: str
    amount: float
    per: str | None
    remaining: float
    reset_s: float | None
    dry_run: bool
    on_outage: str
    needs: float = 0.0
    wait_s: float | None = 0.0


class Preview(Struct, frozen=True):
    """What a request would reserve. `refused_by`: the rule that would refuse it; None: it would pass.

    `retry_after_s`: how long it would refuse; None: for ever, or not at all.
    """

    rules: tuple[RuleState, ...]
    refused_by: str | None
    retry_after_s: float | None


def read_rule_states(match: RuleMatch, reply: list[Any], need: Amounts) -> list[RuleState]:
    """From an answer of take.lua to one who only looks."""
    rule_states: list[RuleState] = []
    for index, bucket in enumerate(match.buckets):
        rule, limit = bucket.rule, bucket.rule.limit
        remaining, reset_ms, wait_ms = reply[4 + 3 * index : 7 + 3 * index]
        rule_states.append(
            RuleState(
                rule=rule.name,
                scope=limit.scope,
                resource=limit.resource,
                amount=in_units(rule, rule.amount),
                per=limit.per,
                remaining=in_units(rule, remaining),
                reset_s=None if rule.kind == LEASES else reset_ms / 1000,
                dry_run=limit.dry_run,
                on_outage=limit.on_outage,
                needs=in_units(rule, need[rule.resource - 1]),
                wait_s=None if wait_ms < 0 else wait_ms / 1000,
            )
        )
    return rule_states


def preview(match: RuleMatch, reply: list[Any], need: Amounts) -> Preview:
    index: int = reply[3]
    rules = tuple(read_rule_states(match, reply, need))
    return Preview(rules, None, None) if index < 0 else Preview(rules, match.rule(index).name, rules[index].wait_s)
