"""Rule matching: which rules apply to a request, and the part of the operations in Redis that all such requests share."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from app.domain.callers import Caller
from app.gateway.limits.budget_standing import budget_rules
from app.gateway.limits.counters.commands import DRY_RUN, HAS_OVERRIDE, STAYS_FULL, BucketSet
from app.gateway.limits.rate_limit_headers import header_rules
from app.gateway.limits.rules import CALENDAR, LEASES, RESOURCES, Rule, RuleOverride, RuleTable, request_dimensions

_MAX_MATCHES = 20_000
_COST = RESOURCES.index("cost_usd") + 1
FOREVER = float("inf")


class Bucket:
    """One rule's count for one subject."""

    __slots__ = ("dimensions", "key", "override", "rule")

    def __init__(self, rule: Rule, key: bytes, dimensions: Mapping[str, str], override: RuleOverride | None = None) -> None:
        self.rule = rule
        self.key = key
        self.dimensions = dimensions  # the rule's scope with the subject's names, for the ledger
        self.override = override  # the subject's own amount, which may have ended; see amount_at()

    def amount_at(self, now_ms: float) -> int:
        override = self.override
        return override.amount if override is not None and now_ms < override.until_ms else self.rule.amount


class RuleMatch:
    """The buckets that a request takes from, built once and kept for all requests that match the same.

    All operations on them share `row`; a calendar period or override in it ends at `valid_until_ms`, by Redis's clock. `header_rules` are
    for rate_limit_headers(), `budget_rules` for fullest_budget().
    """

    __slots__ = (
        "_key_tag",
        "buckets",
        "budget_rules",
        "cost_rule",
        "dry_run_rules",
        "granted",
        "header_rules",
        "last_reply",
        "lease_keys",
        "noted",
        "outage_refusing_rule",
        "row",
        "valid_until_ms",
    )

    def __init__(self, buckets: Sequence[Bucket], lease_ms: int, now_ms: float, key_tag: bytes = b"") -> None:
        self.buckets = tuple(buckets)
        self._key_tag = key_tag
        # the latest reply of take.lua for them, by which a worker estimates its share once Redis is away
        self.last_reply: list[Any] | None = None
        self.granted = 0  # how many reservations it was given since they were last counted
        self.noted = False  # whether a request has matched it since that was reported
        rules = [bucket.rule for bucket in buckets]
        strict = [rule for rule in rules if not rule.limit.dry_run]
        # a rule that admits nothing without Redis; None: there is none
        self.outage_refusing_rule = next((rule for rule in strict if rule.limit.on_outage == "refuse"), None)
        self.cost_rule = next((rule for rule in strict if rule.resource == _COST), None)  # a rule about cost; None: there is none
        # keys of the buckets that count running requests
        self.lease_keys = tuple(bucket.key for bucket in buckets if bucket.rule.kind == LEASES)
        self.dry_run_rules = tuple(index for index, rule in enumerate(rules) if rule.limit.dry_run)  # indexes
        self.renew_periods(lease_ms, now_ms)

    def rule(self, index: int) -> Rule:
        return self.buckets[index].rule

    def rule_at(self, index: int, now_ms: float) -> Rule:
        """Returns the rule with the amount that its subject has at a moment."""
        bucket = self.buckets[index]
        amount = bucket.amount_at(now_ms)
        return bucket.rule if amount == bucket.rule.amount else msgspec.structs.replace(bucket.rule, amount=amount)

    def renew_periods(self, lease_ms: int, now_ms: float) -> None:
        """Builds `row`, `header_rules` and `budget_rules` anew for the calendar periods and overrides of `now_ms`."""
        self.valid_until_ms = FOREVER
        numbers: list[int] = []
        overrides: list[int] = []
        for bucket in self.buckets:
            rule, override = bucket.rule, bucket.override
            flags = (DRY_RUN if rule.limit.dry_run else 0) | (STAYS_FULL if rule.stays_full else 0)
            if override is None:
                overrides += (0, 0)
            else:
                flags |= HAS_OVERRIDE
                overrides += (override.amount, override.until_ms)
                if now_ms < override.until_ms:
                    self.valid_until_ms = min(self.valid_until_ms, override.until_ms)
            numbers += (rule.resource * 4 + rule.kind, rule.amount, flags, rule.lost_nothing_until_ms)
            if rule.kind == CALENDAR:
                periods = rule.period_at(now_ms)
                self.valid_until_ms = min(self.valid_until_ms, periods[1])
                numbers += periods
            else:
                numbers += (rule.window_ms, 0, 0)
        if any(overrides):
            numbers += overrides
        rules = [self.rule_at(index, now_ms) for index in range(len(self.buckets))]
        self.header_rules, self.budget_rules = tuple(header_rules(rules)), budget_rules(rules, now_ms)
        self.row = BucketSet(lease_ms, [bucket.key for bucket in self.buckets], numbers, self._key_tag)


class RuleMatcher:
    """Finds the rules that apply to a request. The results in use are cached; there are few."""

    def __init__(self, table: RuleTable, lease_ms: int, clock_ms: Callable[[], float], key_tag: bytes = b"") -> None:
        self.table = table
        self._key_tag = key_tag
        self._lease_ms = lease_ms
        self._clock_ms = clock_ms
        self._cache: dict[Any, RuleMatch | None] = {}

    def __len__(self) -> int:
        """The number of results that are cached."""
        return len(self._cache)

    def match_for(self, caller: Caller, model: str | None, tags: Mapping[str, str], function: str | None = None) -> RuleMatch | None:
        """Returns the rules that apply, or None if none does.

        `function` is the one that the caller named, or None if it named a model.
        """
        cache_key: Any = (caller.prefix, caller.team, model) if caller.shadow is None else (caller.shadow, caller.team, model, True)
        if self.table.tags and tags:
            tags = {name: value for name, value in tags.items() if name in self.table.tags}
            cache_key = (*cache_key, *sorted(tags.items()))
        if function is not None and not self.table.has_functions:
            function = None
        if function is not None:
            cache_key = (function, cache_key)
        try:
            match = self._cache[cache_key]
        except KeyError:
            match = self._find(request_dimensions(caller, model, tags if self.table.tags else {}, function))
            if len(self._cache) >= _MAX_MATCHES:
                del self._cache[next(iter(self._cache))]
            self._cache[cache_key] = match
        if match is not None and match.valid_until_ms is not FOREVER and match.valid_until_ms <= self._clock_ms():
            match.renew_periods(self._lease_ms, self._clock_ms())
        return match

    def renew_periods(self, match: RuleMatch) -> None:
        match.renew_periods(self._lease_ms, self._clock_ms())

    def match_buckets(self, buckets: Sequence[Bucket]) -> RuleMatch:
        """A match of given buckets, not cached."""
        return RuleMatch(buckets, self._lease_ms, self._clock_ms(), self._key_tag)

    def _find(self, dimensions: Mapping[str, str]) -> RuleMatch | None:
        buckets = list(_iter_buckets(self.table, dimensions))
        return self.match_buckets(buckets) if buckets else None


def _iter_buckets(table: RuleTable, dimensions: Mapping[str, str]) -> Iterator[Bucket]:
    for rule in table.candidates(dimensions):
        subject = rule.subject(dimensions)
        if subject is not None:
            values = {**dict(rule.fixed_dimensions), **dict(zip(rule.each_dimensions, subject, strict=True))}
            yield Bucket(rule, rule.key(subject), values, rule.overrides.get(subject))
