"""Ticket: what a request holds of its limits, and what its answer's headers say of them."""

from collections.abc import Sequence
from typing import Any

from app.gateway.limits.rule_matcher import Bucket, RuleMatch
from app.store.counters.commands import Amounts

Header = tuple[bytes, bytes]
LOCAL_HEADER: Header = (b"x-narthex-limits", b"local")


class Reservation:
    """`replies`: a Match and what was answered for it, one for the plan's model and one for each fallback with rules of its own.

    `born`: the memory in which it was taken. `at`: while Redis was away it was taken here, from these places, and is held there still;
    `local`: some of it was, at any time. `unsure`: Redis may have taken it, and could not say so. `settled`: it is over.
    """

    __slots__ = ("epoch_ms", "extensions", "id", "local_amounts", "match", "maybe_taken", "need", "reply", "settled", "used_local_share")

    def __init__(self, id: bytes, match: RuleMatch, need: Amounts) -> None:
        self.id = id
        self.match = match
        self.need = need
        self.reply: list[Any] = []
        self.extensions: list[tuple[RuleMatch, list[Any]]] = []
        self.epoch_ms: int | None = None
        self.local_amounts: list[tuple[Bucket, int, int]] | None = None
        self.used_local_share = False
        self.maybe_taken = False
        self.settled = False

    @property
    def matches(self) -> Sequence[RuleMatch]:
        """In the order in which they were taken."""
        return (self.match, *(match for match, _ in self.extensions)) if self.extensions else (self.match,)

    @property
    def buckets(self) -> Sequence[Bucket]:
        """In the order in which they were taken."""
        return [bucket for match in self.matches for bucket in match.buckets] if self.extensions else self.match.buckets

    @property
    def headers(self) -> list[Header]:
        """x-ratelimit-*: of each resource, the rule of which the least is left."""
        fields = rate_limit_headers([(self.match, self.reply), *self.extensions] if self.extensions else ((self.match, self.reply),), 2)
        return [*fields, LOCAL_HEADER] if self.used_local_share else fields


def rate_limit_headers(replies: Sequence[tuple[RuleMatch, list[Any]]], stride: int) -> list[Header]:
    """`stride`: how many numbers a reply has for each bucket; the first two are what is left and how long until all of it is free."""
    tightest: dict[str, tuple[float, int, int, int]] = {}
    for match, reply in replies:
        if not reply:
            continue
        for index, amount, name in match.header_rules:
            offset = 3 + stride * index + (stride == 3)
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
    """As OpenAI writes it: 120ms, 1s, 8.64s, 6m0s, 1h0m0s."""
    if ms < 1000:
        return b"%dms" % ms
    minutes, remainder_ms = divmod(ms, 60_000)
    seconds = f"{remainder_ms / 1000:.3f}".rstrip("0").rstrip(".").encode() + b"s"
    if not minutes:
        return seconds
    hours, minutes = divmod(minutes, 60)
    return b"%dh%dm%b" % (hours, minutes, seconds) if hours else b"%dm%b" % (minutes, seconds)
