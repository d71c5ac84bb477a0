"""States of the rules that apply to a caller, as it sees them: GET /v1/limits and POST /v1/limits/preview."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from app.gateway.limits.counters.commands import Amounts
from app.gateway.limits.counters.scripts import WAIT_IS_ESTIMATE
from app.gateway.limits.refusal import in_units
from app.gateway.limits.rule_matcher import RuleMatch
from app.gateway.limits.rules import LEASES


class RuleState(Struct, frozen=True):
    """One rule as a caller meets it. Amounts are in the rule's own units."""

    rule: str
    scope: Mapping[str, str]
    resource: str
    amount: float
    per: str | None
    remaining: float
    reset_s: float | None  # until all of `amount` is free if nothing else comes; None: not known, the rule is about concurrency
    dry_run: bool
    on_outage: str
    after_loss: str
    needed: float = 0.0  # what a previewed request needs
    wait_s: float | None = 0.0  # until that passes this rule; None: it never does
    # "estimate" if requests in flight hold a part of the rule, which may come back sooner or not at all; else "exact"
    wait_kind: str = "exact"


class Preview(Struct, frozen=True):
    """The outcome that a request would have."""

    rules: tuple[RuleState, ...]
    refused_by: str | None  # the rule that would refuse it; None if it would pass
    retry_after_s: float | None  # when it would pass; None if it never would, or would now


def read_rule_states(match: RuleMatch, reply: list[Any], need: Amounts) -> list[RuleState]:
    """Reads the state of each rule from a reply of take.lua in PREVIEW mode."""
    rule_states: list[RuleState] = []
    for index, bucket in enumerate(match.buckets):
        rule, limit = match.rule_at(index, reply[1]), bucket.rule.limit
        remaining, reset_ms, wait_ms, wait_flags = reply[4 + 4 * index : 8 + 4 * index]
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
                after_loss=limit.after_loss,
                needed=in_units(rule, need[rule.resource - 1]),
                wait_s=None if wait_ms < 0 else wait_ms / 1000,
                wait_kind="estimate" if wait_flags & WAIT_IS_ESTIMATE else "exact",
            )
        )
    return rule_states


def read_preview(match: RuleMatch, reply: list[Any], need: Amounts) -> Preview:
    """Reads what would happen to a request from a reply of take.lua in PREVIEW mode."""
    index: int = reply[3]
    rules = tuple(read_rule_states(match, reply, need))
    return Preview(rules, None, None) if index < 0 else Preview(rules, match.rule(index).name, rules[index].wait_s)
