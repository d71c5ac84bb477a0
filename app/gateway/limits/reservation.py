"""Reservation: what a request holds of its limits until it is settled."""

from collections.abc import Sequence
from typing import Any

from app.gateway.limits.budget_standing import BudgetStanding, fullest_budget
from app.gateway.limits.counters.commands import Amounts
from app.gateway.limits.rate_limit_headers import LOCAL_HEADER, Header, rate_limit_headers
from app.gateway.limits.rule_matcher import Bucket, RuleMatch


class Reservation:
    """The amounts that a request holds from Limits.reserve() to Limits.settle() or cancel()."""

    __slots__ = ("epoch_ms", "extensions", "id", "local_amounts", "match", "maybe_taken", "need", "reply", "settled", "used_local_share")

    def __init__(self, id: bytes, match: RuleMatch, need: Amounts) -> None:
        self.id = id  # the inference's
        self.match = match  # the rules of the plan's model
        self.need = need  # what was reserved
        self.reply: list[Any] = []  # of take.lua
        self.extensions: list[tuple[RuleMatch, list[Any]]] = []  # matches of fallbacks that have rules of their own, each with its reply
        self.epoch_ms: int | None = None  # the epoch of Redis in which it was reserved; None: Redis does not count it
        # (bucket, slot, amount) that it holds of this worker's share, taken while Redis was away; None: nothing
        self.local_amounts: list[tuple[Bucket, int, int]] | None = None
        self.used_local_share = False  # whether part of it came from that share at some time
        self.maybe_taken = False  # whether Redis may have counted it, and could not say so
        self.settled = False

    @property
    def matches(self) -> Sequence[RuleMatch]:
        """The matches, in the order in which they were reserved."""
        return (self.match, *(match for match, _ in self.extensions)) if self.extensions else (self.match,)

    @property
    def buckets(self) -> Sequence[Bucket]:
        """The buckets, in the order in which they were reserved, which settle.lua relies on."""
        return [bucket for match in self.matches for bucket in match.buckets] if self.extensions else self.match.buckets

    @property
    def headers(self) -> list[Header]:
        """The x-ratelimit-* headers, and x-narthex-limits where part of it was counted by this worker alone."""
        replies = [(self.match.header_rules, self.reply), *((match.header_rules, reply) for match, reply in self.extensions)]
        fields = rate_limit_headers(replies, 2)
        return [*fields, LOCAL_HEADER] if self.used_local_share else fields

    @property
    def fullest_budget(self) -> BudgetStanding | None:
        """The standing with the fullest budget that applies; None: none does."""
        if not self.match.budget_rules and not self.extensions:
            return None
        replies = [(self.match.budget_rules, self.reply), *((match.budget_rules, reply) for match, reply in self.extensions)]
        return fullest_budget(replies)
