"""The x-ratelimit-* headers of a response: of each resource, the rule with the smallest share left."""

from collections.abc import Iterator, Sequence
from typing import Any

from app.gateway.limits.rules import Rule

Header = tuple[bytes, bytes]
# A rule that headers show: its index in a match, its amount, and the resource's name in the headers.
HeaderRule = tuple[int, int, str]

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
        yield index, rule.amount, _HEADER_NAMES[resource]
        if resource in ("input_tokens", "output_tokens") and not has_total_rule:
            yield index, rule.amount, "tokens"


def rate_limit_headers(replies: Sequence[tuple[Sequence[HeaderRule], list[Any]]], stride: int) -> list[Header]:
    """Headers from replies of take.lua, each with the rules of its match that headers show.

    `stride`: how many numbers a reply has for each bucket: 2 = left, time until all of it is free; 4 = the same, the time to wait, and
    whether that is an estimate.
    """
    tightest: dict[str, tuple[float, int, int, int]] = {}
    for shown_rules, reply in replies:
        if not reply:
            continue
        for index, amount, name in shown_rules:
            offset = 3 + stride * index + (stride == 4)
            remaining = reply[offset]
            share = remaining / amount if amount else 0.0
            current = tightest.get(name)
            if current is None or share < current[0]:
                tightest[name] = (share, amount, remaining if remaining > 0 else 0, reply[offset + 1])
    fields: list[Header] = []
    for name, (_, amount, remaining, reset_ms) in tightest.items():
        fields.append((b"x-ratelimit-limit-" + name.encode(), b"%d" % amount))
        fields.append((b"x-ratelimit-remaining-" + name.encode(), b"%d" % remaining))
        fields.append((b"x-ratelimit-reset-" + name.encode(), format_duration(reset_ms)))
    return fields


def format_duration(ms: int) -> bytes:
    """A duration as OpenAI writes it: 120ms, 1s, 8.64s, 6m0s, 1h0m0s."""
    if ms < 1000:
        return b"%dms" % ms
    minutes, remainder_ms = divmod(ms, 60_000)
    seconds = f"{remainder_ms / 1000:.3f}".rstrip("0").rstrip(".").encode() + b"s"
    if not minutes:
        return seconds
    hours, minutes = divmod(minutes, 60)
    return b"%dh%dm%b" % (hours, minutes, seconds) if hours else b"%dm%b" % (minutes, seconds)
