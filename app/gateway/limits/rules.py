"""Rules: the limits of a snapshot, indexed so that the few that apply to a request are found fast. Pure."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import cast
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Struct

from app.domain.callers import Caller
from app.domain.limits import CountedAs, Limit, LimitOverride
from app.process.thread_steps import in_steps
from app.store.postgres.calendar_periods import CalendarUnit, Period, calendar_period

RESOURCES = ("requests", "input_tokens", "output_tokens", "tokens", "cost_usd", "concurrency")
WINDOW, CALENDAR, LEASES = 1, 2, 3
_WINDOW_MS = {"second": 1_000, "minute": 60_000, "hour": 3_600_000}
MAX_WINDOW_MS = max(_WINDOW_MS.values())

EACH = "each"
# Later than any epoch of Redis.
NEVER_LOST = 2**53
# How far the clocks of Postgres, Redis and gateways may differ: more than `narthex doctor` accepts.
CLOCK_MARGIN_MS = 5_000
_NO_TIMES: Mapping[str, int] = {}
_AS_NAMED = CountedAs()


class RuleOverride(Struct, frozen=True):
    """Another amount for one subject of a rule, as the rule's is counted, until a time by Redis's clock."""

    id: str
    amount: int
    until_ms: int


_NO_OVERRIDES: Mapping[tuple[str, ...], RuleOverride] = {}


class Rule(Struct, frozen=True, eq=False):
    """A limit as it is counted."""

    id: str  # the same as long as it counts the same things, whatever its amount
    limit: Limit
    kind: int  # WINDOW, CALENDAR or LEASES
    resource: int  # index in RESOURCES, from 1
    amount: int  # cost in millionths of a US dollar
    window_ms: int
    zone: ZoneInfo
    fixed_dimensions: tuple[tuple[str, str], ...]  # those of its scope with one value
    each_dimensions: tuple[str, ...]  # those with a bucket for each value
    counted_name: str = ""  # the limit's, or the one that it had first
    since_ms: int = 0  # when it began to count this, 0 if that is not known; what it counted before was none of this rule
    overrides: Mapping[tuple[str, ...], RuleOverride] = _NO_OVERRIDES  # by subject

    @property
    def lost_nothing_until_ms(self) -> int:
        """The latest start of an epoch of Redis before which it had counted nothing that is to be counted again."""
        return NEVER_LOST if self.limit.after_loss == "empty" else self.since_ms

    @property
    def stays_full(self) -> bool:
        return self.limit.after_loss == "spent"

    @property
    def dimension_names(self) -> tuple[str, ...]:
        return tuple(sorted([*self.each_dimensions, *(name for name, _ in self.fixed_dimensions)]))

    @property
    def name(self) -> str:
        return self.limit.name

    @property
    def requirements(self) -> list[tuple[str, str | None]]:
        """The dimensions that not every request has, each with the value that it must have, or None for any value."""
        return [*self.fixed_dimensions, *((dimension, None) for dimension in self.each_dimensions if is_optional(dimension))]

    def period_at(self, now_ms: float) -> Period:
        """The calendar period of a moment; of CALENDAR only."""
        return calendar_period(cast(CalendarUnit, self.limit.per), self.zone, now_ms)

    def subject(self, dimensions: Mapping[str, str]) -> tuple[str, ...] | None:
        """The values that name the bucket; None: the rule does not apply. `dimensions` are those of request_dimensions()."""
        for dimension, value in self.fixed_dimensions:
            if dimensions.get(dimension) != value:
                return None
        values: list[str] = []
        for dimension in self.each_dimensions:
            value = dimensions.get(dimension)
            if value is None:
                return None
            values.append(value)
        return tuple(values)

    def key(self, subject: tuple[str, ...]) -> bytes:
        """The bucket's key in Redis. Names and tags may hold any character, so their digest is used."""
        digest = hashlib.blake2b(msgspec.msgpack.encode(subject), digest_size=12).hexdigest()
        return f"nx:l:{self.id}:{digest}".encode()


class RuleTable:
    """All rules of a snapshot, also `by_name`. candidates() stay few however many rules there are.

    Each rule is filed under its rarest requirement (the name or tag in its scope that the fewest rules have). Rules of limits that are as
    in `previous` are taken from there. Built in steps (see app/process/thread_steps.py).
    """

    def __init__(
        self,
        limits: Sequence[Limit],
        limits_since: Mapping[str, int] = _NO_TIMES,
        previous: "RuleTable | None" = None,
        overrides: Sequence[LimitOverride] = (),
        counted_as: CountedAs = _AS_NAMED,
    ) -> None:
        by_limit: dict[str, list[LimitOverride]] = {}
        for override in in_steps(overrides):
            by_limit.setdefault(override.limit, []).append(override)
        rules = list(_build_rules(limits, limits_since, {} if previous is None else previous.by_name, by_limit, counted_as))
        self.rules = tuple(rules)
        self.by_name: Mapping[str, Rule] = {rule.name: rule for rule in in_steps(rules)}
        requirements = [rule.requirements for rule in in_steps(rules)]
        requirement_counts = Counter(name for names in in_steps(requirements) for name in names)
        self.tags = frozenset(
            dimension.removeprefix("tag:") for dimension, _ in in_steps(requirement_counts) if dimension.startswith("tag:")
        )
        self.has_functions = any(dimension == "function" for dimension, _ in in_steps(requirement_counts))
        self._unconditional: list[tuple[int, Rule]] = []
        self._by_requirement: dict[tuple[str, str | None], list[tuple[int, Rule]]] = {}
        for position, rule in enumerate(in_steps(rules)):
            if requirements[position]:
                rarest = min(requirements[position], key=lambda name: requirement_counts[name])
                self._by_requirement.setdefault(rarest, []).append((position, rule))
            else:
                self._unconditional.append((position, rule))

    def candidates(self, dimensions: Mapping[str, str]) -> list[Rule]:
        """Rules that may apply, in the order of the configuration; Rule.subject() decides."""
        found = list(self._unconditional)
        for dimension, value in dimensions.items():
            found += self._by_requirement.get((dimension, value), ())
            if is_optional(dimension):
                found += self._by_requirement.get((dimension, None), ())
        return [rule for _, rule in sorted(found, key=lambda each: each[0])]


def request_dimensions(caller: Caller, model: str | None, tags: Mapping[str, str], function: str | None = None) -> dict[str, str]:
    """The value of each dimension that a request has: key (as it is counted), or of which shadow it is; team, model, function, tag:NAME."""
    own = {"key": public_part(caller.counted_prefix)} if caller.shadow is None else {"shadow": caller.shadow}
    dimensions = {**own, "team": caller.team}
    if model is not None:
        dimensions["model"] = model
    if function is not None:
        dimensions["function"] = function
    for name, value in tags.items():
        dimensions[f"tag:{name}"] = value
    return dimensions


def is_optional(dimension: str) -> bool:
    """Whether there are requests without it: those that name no function, or do not have the tag."""
    return dimension == "function" or dimension.startswith("tag:")


def public_part(key: str) -> str:
    """The twelve digits of an API key, given all of it or any part that contains them."""
    return key.removeprefix("nx-").partition("-")[0]


def _build_rules(
    limits: Sequence[Limit],
    limits_since: Mapping[str, int],
    previous: Mapping[str, Rule],
    overrides: Mapping[str, Sequence[LimitOverride]],
    counted_as: CountedAs,
) -> Iterator[Rule]:
    seen: Counter[str] = Counter()
    for limit in in_steps(limits):
        since_ms = max(0, limits_since.get(limit.name, 0) - CLOCK_MARGIN_MS)
        rule = previous.get(limit.name)
        own_overrides = _read_overrides(limit, overrides[limit.name]) if limit.name in overrides else _NO_OVERRIDES
        counted_name = counted_as.limits.get(limit.name, limit.name)
        if rule is None or (rule.limit, rule.since_ms, rule.counted_name, rule.overrides) != (limit, since_ms, counted_name, own_overrides):
            rule = _build_rule(limit, since_ms, own_overrides, counted_name, counted_as.keys)
        id = rule.id.partition(".")[0]
        seen[id] += 1
        if seen[id] > 1:  # two rules that are the same but for the amount must not share a bucket
            id += f".{seen[id]}"
        yield rule if rule.id == id else msgspec.structs.replace(rule, id=id)


def _read_overrides(limit: Limit, overrides: Sequence[LimitOverride]) -> Mapping[tuple[str, ...], RuleOverride]:
    """Returns the overrides by subject.

    Those of other dimensions, or of another resource or period, are left out: they are from before the limit
    was changed.
    """
    names = each_dimensions(limit)
    return {
        tuple(public_part(override.subject[name]) if name == "key" else override.subject[name] for name in names): RuleOverride(
            override.id, counted_amount(limit, override.amount), override.until_ms
        )
        for override in overrides
        if set(override.subject) == set(names) and override.counts == (limit.resource, limit.per)
    }


def each_dimensions(limit: Limit) -> tuple[str, ...]:
    """The dimensions of a scope that name its subjects."""
    return tuple(sorted(name for name, value in limit.scope.items() if value == EACH and name != "all"))


def counted_amount(limit: Limit, amount: float) -> int:
    """Returns an amount as it is counted: a cost in millionths of a dollar."""
    return int(amount * 1_000_000 + 0.5) if limit.resource == "cost_usd" else int(amount)


def _build_rule(
    limit: Limit, since_ms: int, overrides: Mapping[tuple[str, ...], RuleOverride], counted_name: str, counted_keys: Mapping[str, str]
) -> Rule:
    each = each_dimensions(limit)
    fixed = {name: value for name, value in limit.scope.items() if value != EACH and name != "all"}
    if "key" in fixed:
        fixed["key"] = public_part(counted_keys.get(fixed["key"], fixed["key"]))
    fixed_dimensions = tuple(sorted(fixed.items()))
    identifying_fields = (counted_name, each, fixed_dimensions, limit.resource, limit.per, limit.time_zone)
    return Rule(
        id=hashlib.blake2b(msgspec.msgpack.encode(identifying_fields), digest_size=8).hexdigest(),
        limit=limit,
        kind=LEASES if limit.resource == "concurrency" else WINDOW if limit.per in _WINDOW_MS else CALENDAR,
        resource=RESOURCES.index(limit.resource) + 1,
        amount=counted_amount(limit, limit.amount),
        window_ms=_WINDOW_MS.get(limit.per or "", 0),
        zone=ZoneInfo(limit.time_zone),
        fixed_dimensions=fixed_dimensions,
        each_dimensions=each,
        counted_name=counted_name,
        since_ms=since_ms,
        overrides=overrides,
    )
