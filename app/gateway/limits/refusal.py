"""Refusals: which rule has no room, what is left of it, and when to come back. In words, and for programs.

code                            status
requests_limit_reached          429
input_tokens_limit_reached      429
output_tokens_limit_reached     429
tokens_limit_reached            429
cost_limit_reached              429
concurrency_limit_reached       429   retry_after_s is an estimate: it is for the others to end
limit_exceeds_amount            400   it needs more than the whole amount: waiting does not help, so nobody is told to
no_price                        400   a rule about cost, and a model without a price
limits_unavailable              503   Redis is away, and the rule will not do without it
"""

from typing import Any

from app.gateway.limits.match import Match
from app.gateway.limits.rules import RESOURCES, Rule
from app.gateway.limits.ticket import Header, headers
from app.store.counters.commands import Amounts
from providers.errors import LimitReached, NeverFits, Unavailable

_CODES = {name: f"{name.removesuffix('_usd')}_limit_reached" for name in RESOURCES}
_COST = RESOURCES.index("cost_usd") + 1
_AGAIN_S = 1.0


def refusal(match: Match, reply: list[Any], need: Amounts) -> LimitReached:
    """From take.lua's answer 1, or one like it."""
    index: int = reply[3]
    rule = match.rule(index)
    left, wait_ms = reply[4 + 3 * index], reply[6 + 3 * index]
    told = headers(((match, reply),), 3)
    needed = need[rule.resource - 1]
    if wait_ms < 0:
        return never(rule, needed, told)
    wait_s = wait_ms / 1000
    estimate = rule.limit.resource == "concurrency"
    return LimitReached(
        f"{allows(rule)} {_left(rule, left)}; this request needs {_said(rule, needed)}. "
        f"{'It may pass' if estimate else 'It passes'} in {wait_s:.3f} s if nothing else comes{' (an estimate)' if estimate else ''}.",
        code=_CODES[rule.limit.resource],
        details={
            **_details(rule, needed),
            "remaining": in_units(rule, left),
            "retry_after_s": wait_s,
            "retry_after_is": "estimate" if estimate else "exact",
        },
        retry_after_s=wait_s,
        headers=[*told, (b"retry-after-ms", b"%d" % wait_ms)],
    )


def never(rule: Rule, needed: int, told: list[Header]) -> NeverFits:
    hint = " A smaller max_tokens reserves less." if rule.limit.resource in ("output_tokens", "tokens", "cost_usd") else ""
    return NeverFits(
        f"{allows(rule)} This request alone needs {_said(rule, needed)}, so it can never pass.{hint}",
        code="limit_exceeds_amount",
        details={**_details(rule, needed), "remaining": None, "retry_after_s": None},
        headers=told,
    )


def no_price(rule: Rule, model: str) -> NeverFits:
    return NeverFits(
        f"{allows(rule)} The model {model!r} has no price, so what it costs cannot be counted: it needs one in [[prices]].",
        code="no_price",
        details={**_details(rule, None), "remaining": None, "retry_after_s": None},
        headers=[],
    )


def unavailable(rule: Rule) -> Unavailable:
    error = Unavailable(
        f"The rule {rule.name!r} cannot be checked at the moment, and it admits nothing unchecked: try again.", retry_after_s=_AGAIN_S
    )
    error.code = "limits_unavailable"
    error.details = {"rule": rule.name, "resource": rule.limit.resource, "retry_after_s": _AGAIN_S}
    return error


def unseen() -> Unavailable:
    error = Unavailable("What is left of the limits cannot be told at the moment: the server that counts is away.", retry_after_s=_AGAIN_S)
    error.code = "limits_unavailable"
    return error


def allows(rule: Rule) -> str:
    limit = rule.limit
    if limit.resource == "concurrency":
        return f"The rule {rule.name!r} allows {rule.amount} request{'' if rule.amount == 1 else 's'} at a time."
    return f"The rule {rule.name!r} allows {_said(rule, rule.amount)} per {limit.per}."


def in_units(rule: Rule, count: int) -> float:
    """As the rule's amount is written."""
    return count / 1_000_000 if rule.resource == _COST else count


def _left(rule: Rule, left: int) -> str:
    return f"{_said(rule, left)} {'is' if left == 1 else 'are'} left"


def _said(rule: Rule, count: int) -> str:
    resource = rule.limit.resource
    if resource == "cost_usd":
        return f"${count / 1_000_000:.6g}"
    if resource == "concurrency":
        return f"{count} {'place' if count == 1 else 'places'}"
    noun = resource.replace("_", " ")
    return f"{count} {noun.removesuffix('s') if count == 1 else noun}"


def _details(rule: Rule, needed: int | None) -> dict[str, str | float | None]:
    limit = rule.limit
    return {
        "rule": rule.name,
        "resource": limit.resource,
        "amount": in_units(rule, rule.amount),
        "per": limit.per,
        "needed": None if needed is None else in_units(rule, needed),
    }
