"""Match: the rules that are about a request, and what is said to Redis for all requests alike. Made once, kept while it is in use."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from app.domain import Caller
from app.gateway.limits.calendar_periods import calendar_period
from app.gateway.limits.rules import CALENDAR, LEASES, RESOURCES, WINDOW, Rule, RuleTable, request_dimensions
from app.store.counters.commands import BucketSet
from app.store.counters.scripts import Scripts

_MAX_MATCHES = 20_000
_COST = RESOURCES.index("cost_usd") + 1
FOREVER = float("inf")


class Bucket:
    """One rule's count for one subject. `who`: its scope with the subject's names, as the ledger is asked."""

    __slots__ = ("dimensions", "key", "rule")

    def __init__(self, rule: Rule, key: bytes, dimensions: Mapping[str, str]) -> None:
        self.rule = rule
        self.key = key
        self.dimensions = dimensions


class RuleMatch:
    """`last`: the latest reply for these buckets, for when there are no more. `until_ms`: when its row's periods end.

    `refusing`, `priced`: a rule that will not do without Redis; one about cost. `leased`, `tried`: keys of those that count who runs,
    indexes of dry runs. `shown`: what headers tell of.
    """

    __slots__ = (
        "buckets",
        "cost_rule",
        "dry_run_rules",
        "header_rules",
        "last_reply",
        "lease_keys",
        "outage_refusing_rule",
        "row",
        "valid_until_ms",
    )

    def __init__(self, buckets: Sequence[Bucket], scripts: Scripts, lease_ms: int, now_ms: float) -> None:
        self.buckets = tuple(buckets)
        self.last_reply: list[Any] | None = None
        rules = [bucket.rule for bucket in buckets]
        strict = [rule for rule in rules if not rule.limit.dry_run]
        self.outage_refusing_rule = next((rule for rule in strict if rule.limit.on_outage == "refuse"), None)
        self.cost_rule = next((rule for rule in strict if rule.resource == _COST), None)
        self.lease_keys = tuple(bucket.key for bucket in buckets if bucket.rule.kind == LEASES)
        self.dry_run_rules = tuple(index for index, rule in enumerate(rules) if rule.limit.dry_run)
        self.header_rules = tuple(_header_rules(rules))
        self.renew_periods(scripts, lease_ms, now_ms)

    def rule(self, index: int) -> Rule:
        return self.buckets[index].rule

    def renew_periods(self, scripts: Scripts, lease_ms: int, now_ms: float) -> None:
        self.valid_until_ms = FOREVER
        numbers: list[int] = []
        for bucket in self.buckets:
            rule = bucket.rule
            numbers += (rule.kind, rule.resource, rule.amount, int(rule.limit.dry_run))
            if rule.kind == WINDOW:
                numbers += (rule.window_ms, 0, 0)
            elif rule.kind == CALENDAR:
                periods = calendar_period("day" if rule.limit.per == "day" else "month", rule.zone, now_ms)
                self.valid_until_ms = min(self.valid_until_ms, periods[1])
                numbers += periods
            else:
                numbers += (0, 0, 0)
        self.row = BucketSet(scripts, lease_ms, [bucket.key for bucket in self.buckets], numbers)


class RuleMatcher:
    """Finds what a request matches. The few answers in use are remembered."""

    def __init__(self, table: RuleTable, scripts: Scripts, lease_ms: int, clock_ms: Callable[[], float]) -> None:
        self._table = table
        self._scripts = scripts
        self._lease_ms = lease_ms
        self._clock_ms = clock_ms
        self._cache: dict[Any, RuleMatch | None] = {}

    def __len__(self) -> int:
        """How many are remembered."""
        return len(self._cache)

    def match_for(self, caller: Caller, model: str | None, tags: Mapping[str, str]) -> RuleMatch | None:
        """None: no rule is about it."""
        cache_key: Any = (caller.prefix, caller.team, model)
        if self._table.tags and tags:
            tags = {name: value for name, value in tags.items() if name in self._table.tags}
            cache_key = (*cache_key, *sorted(tags.items()))
        try:
            match = self._cache[cache_key]
        except KeyError:
            match = self._find(request_dimensions(caller, model, tags if self._table.tags else {}))
            if len(self._cache) >= _MAX_MATCHES:
                del self._cache[next(iter(self._cache))]
            self._cache[cache_key] = match
        if match is not None and match.valid_until_ms is not FOREVER and match.valid_until_ms <= self._clock_ms():
            match.renew_periods(self._scripts, self._lease_ms, self._clock_ms())
        return match

    def renew_periods(self, match: RuleMatch) -> None:
        match.renew_periods(self._scripts, self._lease_ms, self._clock_ms())

    def match_buckets(self, buckets: Sequence[Bucket]) -> RuleMatch:
        """One for buckets chosen by other means."""
        return RuleMatch(buckets, self._scripts, self._lease_ms, self._clock_ms())

    def _find(self, dimensions: Mapping[str, str]) -> RuleMatch | None:
        buckets = list(_iter_buckets(self._table, dimensions))
        return self.match_buckets(buckets) if buckets else None


def _iter_buckets(table: RuleTable, dimensions: Mapping[str, str]) -> Iterator[Bucket]:
    for rule in table.candidates(dimensions):
        subject = rule.subject(dimensions)
        if subject is not None:
            yield Bucket(rule, rule.key(subject), {**dict(rule.fixed_dimensions), **dict(zip(rule.each_dimensions, subject, strict=True))})


# Which rules a header may tell of: those of their own resource, or for `tokens` those of either kind.
_HEADERS = {"requests": ("requests",), "tokens": ("tokens",), "input_tokens": ("input-tokens",), "output_tokens": ("output-tokens",)}


def _header_rules(rules: Sequence[Rule]) -> Iterator[tuple[int, int, str]]:
    """Index, amount and name in the headers. Dry runs are not shown: nobody need heed them."""
    has_total_rule = any(rule.limit.resource == "tokens" and not rule.limit.dry_run for rule in rules)
    for index, rule in enumerate(rules):
        if rule.limit.dry_run:
            continue
        resource = rule.limit.resource
        for name in _HEADERS.get(resource, ()):
            yield index, rule.amount, name
        if resource in ("input_tokens", "output_tokens") and not has_total_rule:
            yield index, rule.amount, "tokens"
