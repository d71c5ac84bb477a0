"""Refusals: which rule refuses a request, what is left of it, and when to retry; as a message and as fields for programs.

code                            status
requests_limit_reached          429
input_tokens_limit_reached      429
output_tokens_limit_reached     429
tokens_limit_reached            429
cost_limit_reached              429
concurrency_limit_reached       429
limit_exceeds_amount            400   it needs more than the full amount: waiting does not help, so there is no retry_after_s
no_price                        400   a rule about cost applies, and the model has no price
limits_unavailable              503   Redis is away, and the rule has on_outage = "refuse"

retry_after_s of a 429 is an estimate where requests in flight hold a part of the rule: they end when they end, and give back what they
did not use. It is then the earliest moment that can be expected. Otherwise it is exact, and of a day or month also told as a time.
`cause` "counters_lost": the rule refuses because Redis has lost its memory; retry_after_s is then an estimate where windows are rebuilt.
"""

import datetime
from typing import Any

from app.domain.wait_sentences import may_pass_in, passes_at, passes_in
from app.gateway.limits.budget_standing import budget_period
from app.gateway.limits.counters.commands import Amounts
from app.gateway.limits.counters.scripts import WAIT_IS_AFTER_LOSS, WAIT_IS_ESTIMATE
from app.gateway.limits.rate_limit_headers import Header, rate_limit_headers
from app.gateway.limits.rule_matcher import RuleMatch
from app.gateway.limits.rules import CALENDAR, RESOURCES, Rule
from app.process.plain_numbers import plain_microusd
from providers.canonical.errors import LimitExceeded, LimitUnsatisfiable, Unavailable

_CODES = {name: f"{name.removesuffix('_usd')}_limit_reached" for name in RESOURCES}
_INPUT, _OUTPUT = RESOURCES.index("input_tokens"), RESOURCES.index("output_tokens")
_COST = RESOURCES.index("cost_usd") + 1
_RETRY_AFTER_S = 1.0
_LOSS = "How much of it is used is not known at the moment, as the server that counts has lost its memory, so nothing is left."


def limit_exceeded(match: RuleMatch, reply: list[Any], need: Amounts) -> LimitExceeded:
    """Returns the error for a reply REFUSED of take.lua, or of LocalLimiter.take."""
    index: int = reply[3]
    rule = match.rule_at(index, reply[1])
    remaining, _, wait_ms, wait_flags = reply[4 + 4 * index : 8 + 4 * index]
    is_estimate, after_loss = bool(wait_flags & WAIT_IS_ESTIMATE), bool(wait_flags & WAIT_IS_AFTER_LOSS)
    limit_headers = rate_limit_headers(((match.header_rules, reply),), 4)
    needed = need[rule.resource - 1]
    if wait_ms < 0:
        return never_fits(rule, need, limit_headers)
    wait_s = wait_ms / 1000
    free_at = None if is_estimate or rule.kind != CALENDAR else datetime.datetime.fromtimestamp((reply[1] + wait_ms) / 1000, rule.zone)
    details = {
        **_error_details(rule, needed),
        "remaining": in_units(rule, remaining),
        "retry_after_s": wait_s,
        "retry_after_kind": "estimate" if is_estimate else "exact",
    }
    if free_at is not None:
        details["retry_at"] = free_at.isoformat(timespec="seconds")
    if after_loss:
        details["cause"] = "counters_lost"
        message = f"{describe_rule(rule)} {_LOSS} {_describe_wait_after_loss(rule, wait_s, is_estimate, free_at)}"
    else:
        message = (
            f"{describe_rule(rule)} {_describe_remaining(rule, remaining)}; this request needs {_describe_amount(rule, needed)}. "
            f"{_describe_wait(rule, wait_s, is_estimate, free_at)}"
        )
    return LimitExceeded(
        message,
        code=_CODES[rule.limit.resource],
        details=details,
        retry_after_s=wait_s,
        headers=[*limit_headers, (b"retry-after-ms", b"%d" % wait_ms)],
        budget_period=budget_period(rule),
    )


def never_fits(rule: Rule, need: Amounts, limit_headers: list[Header]) -> LimitUnsatisfiable:
    needed = need[rule.resource - 1]
    return LimitUnsatisfiable(
        f"{describe_rule(rule)} This request alone needs {_describe_amount(rule, needed)}, so it can never pass.{_advice(rule, need)}",
        code="limit_exceeds_amount",
        details={**_error_details(rule, needed), "remaining": None, "retry_after_s": None},
        headers=limit_headers,
    )


def no_price(rule: Rule, model: str) -> LimitUnsatisfiable:
    return LimitUnsatisfiable(
        f"{describe_rule(rule)} The model {model!r} has no price, so its cost cannot be counted. Add one to [[prices]].",
        code="no_price",
        details={**_error_details(rule, None), "remaining": None, "retry_after_s": None},
        headers=[],
    )


def rule_unavailable(rule: Rule) -> Unavailable:
    error = Unavailable(
        f"The rule {rule.name!r} cannot be checked at the moment, and it admits nothing unchecked. Try again.", retry_after_s=_RETRY_AFTER_S
    )
    error.code = "limits_unavailable"
    error.details = {"rule": rule.name, "resource": rule.limit.resource, "retry_after_s": _RETRY_AFTER_S}
    return error


def limits_unavailable() -> Unavailable:
    error = Unavailable(
        "What is left of the limits is not known at the moment: the server that counts is unavailable.",
        retry_after_s=_RETRY_AFTER_S,
    )
    error.code = "limits_unavailable"
    return error


def describe_rule(rule: Rule) -> str:
    limit = rule.limit
    if limit.resource == "concurrency":
        return f"The rule {rule.name!r} allows {rule.amount} request{'' if rule.amount == 1 else 's'} at a time."
    return f"The rule {rule.name!r} allows {_describe_amount(rule, rule.amount)} per {limit.per}."


def in_units(rule: Rule, count: int) -> float:
    """A count in the unit in which the rule's amount is configured: US dollars of a cost."""
    return count / 1_000_000 if rule.resource == _COST else count


def _advice(rule: Rule, need: Amounts) -> str:
    """Returns advice on a request that needs more than all of a rule: what would let it pass.

    It is empty if nothing would.
    """
    match rule.limit.resource:
        case "input_tokens":
            return " Only a shorter prompt can pass."
        case "tokens" if need[_INPUT] >= rule.amount:
            return f" Its prompt alone is estimated at {need[_INPUT]} tokens: only a shorter one can pass."
        case "tokens" | "output_tokens" if need[_OUTPUT]:
            return " A smaller max_tokens reserves less."
        case "cost_usd":
            return " A shorter prompt, or a smaller max_tokens, costs less."
        case _:
            return ""


def _describe_wait_after_loss(rule: Rule, wait_s: float, is_estimate: bool, free_at: datetime.datetime | None) -> str:
    if is_estimate:
        return f"It may be known again in {wait_s:.3f} s (an estimate)."
    return _describe_wait(rule, wait_s, is_estimate, free_at)


def _describe_wait(rule: Rule, wait_s: float, is_estimate: bool, free_at: datetime.datetime | None) -> str:
    if free_at is not None:
        return passes_at(free_at, rule.zone.key)
    if not is_estimate:
        return passes_in(wait_s)
    return may_pass_in(wait_s, returned=rule.limit.resource != "concurrency")


def _describe_remaining(rule: Rule, remaining: int) -> str:
    return f"{_describe_amount(rule, remaining)} {'is' if remaining == 1 else 'are'} left"


def _describe_amount(rule: Rule, count: int) -> str:
    resource = rule.limit.resource
    if resource == "cost_usd":
        return plain_microusd(count)
    if resource == "concurrency":
        return f"{count} {'place' if count == 1 else 'places'}"
    noun = resource.replace("_", " ")
    return f"{count} {noun.removesuffix('s') if count == 1 else noun}"


def _error_details(rule: Rule, needed: int | None) -> dict[str, str | float | None]:
    limit = rule.limit
    return {
        "rule": rule.name,
        "resource": limit.resource,
        "amount": in_units(rule, rule.amount),
        "per": limit.per,
        "needed": None if needed is None else in_units(rule, needed),
    }
