"""A refused caller is told when to retry, how certain that is, and what would let the request pass."""

from typing import Any

import pytest

from app.domain.callers import Caller
from app.domain.limits import Limit
from app.gateway.limits.counters.scripts import REFUSED, WAIT_IS_AFTER_LOSS, WAIT_IS_ESTIMATE
from app.gateway.limits.refusal import limit_exceeded
from app.gateway.limits.rule_matcher import RuleMatch, RuleMatcher
from app.gateway.limits.rules import RuleTable
from app.gateway.limits.usage_amounts import UsageEstimate
from providers.canonical.errors import LimitExceeded

NOON_MS = 1_795_262_400_000  # 2026-11-21T12:00:00Z


def match_of(limit: Limit) -> RuleMatch:
    match = RuleMatcher(RuleTable([limit]), 1000, lambda: NOON_MS).match_for(Caller("k", "t", "team", "full", prefix="nx-1"), "m", {})
    assert match is not None
    return match


def refusal_of(limit: Limit, wait_ms: int, wait_flags: int = 0, need: UsageEstimate | None = None) -> LimitExceeded:
    reply: list[Any] = [REFUSED, NOON_MS, 0, 0, 2, wait_ms, wait_ms, wait_flags]
    return limit_exceeded(match_of(limit), reply, (need or UsageEstimate(3, 4)).amounts())


def test_day_rule_names_a_time_in_its_zone_beside_the_seconds():
    error = refusal_of(Limit("daily", {"all": "each"}, "requests", 9, "day", time_zone="Europe/Berlin"), 11 * 3_600_000)
    assert "It passes at 2026-11-22 00:00 (Europe/Berlin) if no other request comes." in error.message
    assert error.details is not None and error.details["retry_at"] == "2026-11-22T00:00:00+01:00"
    assert (error.details["retry_after_kind"], error.retry_after_s) == ("exact", 39_600)


def test_day_rule_held_by_requests_in_flight_gives_an_estimate_and_no_time():
    error = refusal_of(Limit("daily", {"all": "each"}, "tokens", 9, "day"), 2_000, 1)
    assert "It may pass in 2.000 s, if requests in flight then return what they did not use (an estimate)." in error.message
    assert error.details is not None and error.details["retry_after_kind"] == "estimate" and "retry_at" not in error.details


@pytest.mark.parametrize(
    ("resource", "need", "advice"),
    [
        ("tokens", UsageEstimate(4, 900), "A smaller max_tokens reserves less."),
        ("tokens", UsageEstimate(200, 4), "Its prompt alone is estimated at 200 tokens: only a shorter one can pass."),
        ("tokens", UsageEstimate(100, 4), "Its prompt alone is estimated at 100 tokens: only a shorter one can pass."),
        ("input_tokens", UsageEstimate(200, 4), "Only a shorter prompt can pass."),
        ("output_tokens", UsageEstimate(4, 900), "A smaller max_tokens reserves less."),
        ("cost_usd", UsageEstimate(4, 900, 10**9), "A shorter prompt, or a smaller max_tokens, costs less."),
    ],
)
def test_advice_for_a_request_that_never_fits_is_one_that_helps(resource: Any, need: UsageEstimate, advice: str):
    error = refusal_of(Limit("small", {"all": "each"}, resource, 100, "minute"), -1, need=need)
    assert error.code == "limit_exceeds_amount" and error.message.endswith(f"it can never pass. {advice}")


@pytest.mark.parametrize(
    ("per", "flags", "when"),
    [
        ("hour", WAIT_IS_AFTER_LOSS | WAIT_IS_ESTIMATE, "It may be known again in 60.000 s (an estimate)."),
        ("hour", WAIT_IS_AFTER_LOSS, "It passes in 60.000 s if no other request comes."),
        ("day", WAIT_IS_AFTER_LOSS, "It passes at 2026-11-21 12:01 (UTC) if no other request comes."),
    ],
)
def test_refusal_because_redis_lost_its_memory_says_so(per: Any, flags: int, when: str):
    error = refusal_of(Limit("r", {"all": "each"}, "requests", 9, per), 60_000, flags)
    assert "the server that counts has lost its memory" in error.message and error.message.endswith(when)
    assert error.details is not None and error.details["cause"] == "counters_lost"
    assert error.details["retry_after_kind"] == ("estimate" if flags & WAIT_IS_ESTIMATE else "exact")


def test_other_refusals_have_no_cause():
    error = refusal_of(Limit("r", {"all": "each"}, "requests", 9, "hour"), 60_000, WAIT_IS_ESTIMATE)
    assert error.details is not None and "cause" not in error.details
