"""Match: the rules that are about a request, and what is said to Redis for all requests alike. Made once, kept while it is in use."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from app.domain import Caller
from app.gateway.limits.periods import period
from app.gateway.limits.rules import CALENDAR, LEASES, RESOURCES, WINDOW, Rule, Table, who_asks
from app.store.counters.commands import Row
from app.store.counters.scripts import Scripts

_MOST_MATCHES = 20_000
_COST = RESOURCES.index("cost_usd") + 1
FOREVER = float("inf")


class Bucket:
    """One rule's count for one subject. `who`: its scope with the subject's names, as the ledger is asked."""

    __slots__ = ("key", "rule", "who")

    def __init__(self, rule: Rule, key: bytes, who: Mapping[str, str]) -> None:
        self.rule = rule
        self.key = key
        self.who = who


class Match:
    """`last`: the latest reply for these buckets, for when there are no more. `until_ms`: when its row's periods end.

    `refusing`, `priced`: a rule that will not do without Redis; one about cost. `leased`, `tried`: keys of those that count who runs,
    indexes of dry runs. `shown`: what headers tell of.
    """

    __slots__ = ("buckets", "last", "leased", "priced", "refusing", "row", "shown", "tried", "until_ms")

    def __init__(self, buckets: Sequence[Bucket], scripts: Scripts, lease_ms: int, now_ms: float) -> None:
        self.buckets = tuple(buckets)
        self.last: list[Any] | None = None
        rules = [bucket.rule for bucket in buckets]
        strict = [rule for rule in rules if not rule.limit.dry_run]
        self.refusing = next((rule for rule in strict if rule.limit.on_outage == "refuse"), None)
        self.priced = next((rule for rule in strict if rule.resource == _COST), None)
        self.leased = tuple(bucket.key for bucket in buckets if bucket.rule.kind == LEASES)
        self.tried = tuple(index for index, rule in enumerate(rules) if rule.limit.dry_run)
        self.shown = tuple(_shown(rules))
        self.renew_periods(scripts, lease_ms, now_ms)

    def rule(self, index: int) -> Rule:
        return self.buckets[index].rule

    def renew_periods(self, scripts: Scripts, lease_ms: int, now_ms: float) -> None:
        self.until_ms = FOREVER
        numbers: list[int] = []
        for bucket in self.buckets:
            rule = bucket.rule
            numbers += (rule.kind, rule.resource, rule.amount, int(rule.limit.dry_run))
            if rule.kind == WINDOW:
                numbers += (rule.window_ms, 0, 0)
            elif rule.kind == CALENDAR:
                periods = period("day" if rule.limit.per == "day" else "month", rule.zone, now_ms)
                self.until_ms = min(self.until_ms, periods[1])
                numbers += periods
            else:
                numbers += (0, 0, 0)
        self.row = Row(scripts, lease_ms, [bucket.key for bucket in self.buckets], numbers)


class Matches:
    """Finds what a request matches. The few answers in use are remembered."""

    def __init__(self, table: Table, scripts: Scripts, lease_ms: int, clock_ms: Callable[[], float]) -> None:
        self._table = table
        self._scripts = scripts
        self._lease_ms = lease_ms
        self._clock_ms = clock_ms
        self._met: dict[Any, Match | None] = {}

    def __len__(self) -> int:
        """How many are remembered."""
        return len(self._met)

    def of(self, caller: Caller, model: str | None, tags: Mapping[str, str]) -> Match | None:
        """None: no rule is about it."""
        known: Any = (caller.prefix, caller.team, model)
        if self._table.tags and tags:
            tags = {name: value for name, value in tags.items() if name in self._table.tags}
            known = (*known, *sorted(tags.items()))
        try:
            match = self._met[known]
        except KeyError:
            match = self._find(who_asks(caller, model, tags if self._table.tags else {}))
            if len(self._met) >= _MOST_MATCHES:
                del self._met[next(iter(self._met))]
            self._met[known] = match
        if match is not None and match.until_ms is not FOREVER and match.until_ms <= self._clock_ms():
            match.renew_periods(self._scripts, self._lease_ms, self._clock_ms())
        return match

    def renew_periods(self, match: Match) -> None:
        match.renew_periods(self._scripts, self._lease_ms, self._clock_ms())

    def made_of(self, buckets: Sequence[Bucket]) -> Match:
        """One for buckets chosen by other means."""
        return Match(buckets, self._scripts, self._lease_ms, self._clock_ms())

    def _find(self, who: Mapping[str, str]) -> Match | None:
        buckets = list(_buckets(self._table, who))
        return self.made_of(buckets) if buckets else None


def _buckets(table: Table, who: Mapping[str, str]) -> Iterator[Bucket]:
    for rule in table.candidates(who):
        subject = rule.subject(who)
        if subject is not None:
            yield Bucket(rule, rule.key(subject), {**dict(rule.fixed), **dict(zip(rule.each, subject, strict=True))})


# Which rules a header may tell of: those of their own resource, or for `tokens` those of either kind.
_HEADERS = {"requests": ("requests",), "tokens": ("tokens",), "input_tokens": ("input-tokens",), "output_tokens": ("output-tokens",)}


def _shown(rules: Sequence[Rule]) -> Iterator[tuple[int, int, str]]:
    """Index, amount and name in the headers. Dry runs are not shown: nobody need heed them."""
    total = any(rule.limit.resource == "tokens" and not rule.limit.dry_run for rule in rules)
    for index, rule in enumerate(rules):
        if rule.limit.dry_run:
            continue
        resource = rule.limit.resource
        for name in _HEADERS.get(resource, ()):
            yield index, rule.amount, name
        if resource in ("input_tokens", "output_tokens") and not total:
            yield index, rule.amount, "tokens"
