"""Ticket: what a request holds of its limits, and what its answer's headers say of them."""

from collections.abc import Sequence
from typing import Any

from app.gateway.limits.match import Bucket, Match
from app.store.counters.commands import Amounts

Header = tuple[bytes, bytes]
LOCAL: Header = (b"x-narthex-limits", b"local")


class Ticket:
    """`replies`: a Match and what was answered for it, one for the plan's model and one for each fallback with rules of its own.

    `born`: the memory in which it was taken. `at`: while Redis was away it was taken here, from these places, and is held there still;
    `local`: some of it was, at any time. `unsure`: Redis may have taken it, and could not say so. `settled`: it is over.
    """

    __slots__ = ("at", "born", "id", "local", "match", "need", "reply", "rest", "settled", "unsure")

    def __init__(self, id: bytes, match: Match, need: Amounts) -> None:
        self.id = id
        self.match = match
        self.need = need
        self.reply: list[Any] = []
        self.rest: list[tuple[Match, list[Any]]] = []
        self.born: int | None = None
        self.at: list[tuple[Bucket, int, int]] | None = None
        self.local = False
        self.unsure = False
        self.settled = False

    @property
    def matches(self) -> Sequence[Match]:
        """In the order in which they were taken."""
        return (self.match, *(match for match, _ in self.rest)) if self.rest else (self.match,)

    @property
    def buckets(self) -> Sequence[Bucket]:
        """In the order in which they were taken."""
        return [bucket for match in self.matches for bucket in match.buckets] if self.rest else self.match.buckets

    @property
    def headers(self) -> list[Header]:
        """x-ratelimit-*: of each resource, the rule of which the least is left."""
        told = headers([(self.match, self.reply), *self.rest] if self.rest else ((self.match, self.reply),), 2)
        return [*told, LOCAL] if self.local else told


def headers(replies: Sequence[tuple[Match, list[Any]]], stride: int) -> list[Header]:
    """`stride`: how many numbers a reply has for each bucket; the first two are what is left and how long until all of it is free."""
    tightest: dict[str, tuple[float, int, int, int]] = {}
    for match, reply in replies:
        if not reply:
            continue
        for index, amount, name in match.shown:
            at = 3 + stride * index + (stride == 3)
            left = reply[at]
            share = left / amount if amount else 0.0
            known = tightest.get(name)
            if known is None or share < known[0]:
                tightest[name] = (share, amount, left if left > 0 else 0, reply[at + 1])
    told: list[Header] = []
    for name, (_, amount, left, reset_ms) in tightest.items():
        told.append((b"x-ratelimit-limit-" + name.encode(), b"%d" % amount))
        told.append((b"x-ratelimit-remaining-" + name.encode(), b"%d" % left))
        told.append((b"x-ratelimit-reset-" + name.encode(), duration(reset_ms)))
    return told


def duration(ms: int) -> bytes:
    """As OpenAI writes it: 120ms, 1s, 8.64s, 6m0s, 1h0m0s."""
    if ms < 1000:
        return b"%dms" % ms
    minutes, rest_ms = divmod(ms, 60_000)
    seconds = f"{rest_ms / 1000:.3f}".rstrip("0").rstrip(".").encode() + b"s"
    if not minutes:
        return seconds
    hours, minutes = divmod(minutes, 60)
    return b"%dh%dm%b" % (hours, minutes, seconds) if hours else b"%dm%b" % (minutes, seconds)
