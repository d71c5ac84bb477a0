"""The x-ratelimit-* headers of a response: of each resource, the rule with the smallest share left."""

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from app.gateway.limits.rules import Rule

Header = tuple[bytes, bytes]


class HeaderRule(Struct, frozen=True):
    """A rule that headers show. What they say whatever is left is ready."""

    index: int  # in its match
    amount: int
    resource: str  # its name in headers
    limit_header: Header
    remaining_name: bytes
    reset_name: bytes


LOCAL_HEADER: Header = (b"x-narthex-limits", b"local")

_HEADER_NAMES = {"requests": "requests", "tokens": "tokens", "input_tokens": "input-tokens", "output_tokens": "output-tokens"}


def header_rules(rules: Sequence[Rule]) -> Iterator[HeaderRule]:
    """The rules that headers show. Dry runs are left out: they refuse nothing. Costs and concurrency have no header.

    `tokens` shows the rules about all tokens, or, where there are none, those about input and output.
    """
    has_total_rule = any(rule.limit.resource == "tokens" and not rule.limit.dry_run for rule in rules)
    for index, rule in enumerate(rules):
        resource = rule.limit.resource
        if rule.limit.dry_run or resource not in _HEADER_NAMES:
            continue
        yield _header_rule(index, rule.amount, _HEADER_NAMES[resource])
        if resource in ("input_tokens", "output_tokens") and not has_total_rule:
            yield _header_rule(index, rule.amount, "tokens")


def _header_rule(index: int, amount: int, resource: str) -> HeaderRule:
    limit, remaining, reset = (f"x-ratelimit-{what}-{resource}".encode() for what in ("limit", "remaining", "reset"))
    return HeaderRule(index, amount, resource, (limit, b"%d" % amount), remaining, reset)


def rate_limit_headers(replies: Sequence[tuple[Sequence[HeaderRule], list[Any]]], stride: int) -> list[Header]:
    """Headers from replies of take.lua, each with the rules of its match that headers show.

    A reply has `stride` numbers for each bucket. Two are what is left and the time until all of it is free; four are the same, the time to
    wait, and whether that is an estimate.
    """
    tightest: dict[str, tuple[float, HeaderRule, int, int]] = {}
    for shown_rules, reply in replies:
        if not reply:
            continue
        for rule in shown_rules:
            offset = 3 + stride * rule.index + (stride == 4)
            remaining = reply[offset]
            share = remaining / rule.amount if rule.amount else 0.0
            current = tightest.get(rule.resource)
            if current is None or share < current[0]:
                tightest[rule.resource] = share, rule, remaining, reply[offset + 1]
    fields: list[Header] = []
    for _, rule, remaining, reset_ms in tightest.values():
        remaining_text = b"%d" % (remaining if remaining > 0 else 0)
        fields += rule.limit_header, (rule.remaining_name, remaining_text), (rule.reset_name, format_duration(reset_ms))
    return fields


def format_duration(ms: int) -> bytes:
    """A duration as OpenAI writes it: 120ms, 1s, 8.64s, 6m0s, 1h0m0s."""
    if ms < 1000:
        return b"%dms" % ms
    seconds, milliseconds = divmod(ms, 1000)
    fraction = (b".%03d" % milliseconds).rstrip(b"0") if milliseconds else b""
    if seconds < 60:
        return b"%d%bs" % (seconds, fraction)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return b"%dh%dm%d%bs" % (hours, minutes, seconds, fraction) if hours else b"%dm%d%bs" % (minutes, seconds, fraction)
