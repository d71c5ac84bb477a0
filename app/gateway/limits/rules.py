"""Rules: the limits of a snapshot in the form in which requests meet them. Pure."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Struct

from app.domain import Caller, Limit

RESOURCES = ("requests", "input_tokens", "output_tokens", "tokens", "cost_usd", "concurrency")
WINDOW, CALENDAR, LEASES = 1, 2, 3
_WINDOW_MS = {"second": 1_000, "minute": 60_000, "hour": 3_600_000}

EACH = "each"


class Rule(Struct, frozen=True, eq=False):
    """`id`: the same as long as it counts the same, whatever its amount. `resource`: 1 for the first of RESOURCES.

    `amount`: in whole units, of cost in millionths of a dollar. `fixed`, `each`: dimensions with a name, and those without.
    """

    id: str
    limit: Limit
    kind: int
    resource: int
    amount: int
    window_ms: int
    zone: ZoneInfo
    fixed: tuple[tuple[str, str], ...]
    each: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.limit.name

    @property
    def needs(self) -> list[tuple[str, str | None]]:
        """What not every request has: names, and tags of whatever value (None)."""
        return [*self.fixed, *((dimension, None) for dimension in self.each if dimension.startswith("tag:"))]

    def subject(self, who: Mapping[str, str]) -> tuple[str, ...] | None:
        """Whose bucket it is; None: it is not about them. `who`: a value for each dimension that the request has."""
        for dimension, value in self.fixed:
            if who.get(dimension) != value:
                return None
        values: list[str] = []
        for dimension in self.each:
            value = who.get(dimension)
            if value is None:
                return None
            values.append(value)
        return tuple(values)

    def key(self, subject: tuple[str, ...]) -> bytes:
        """In Redis. Names and tags may hold anything, so they go in as a digest."""
        told = hashlib.blake2b(msgspec.msgpack.encode(subject), digest_size=12).hexdigest()
        return f"nx:l:{self.id}:{told}".encode()


class Table:
    """All rules. candidates() are few however many there are: each is filed under the rarest name in its scope, or the tag it needs."""

    def __init__(self, limits: Sequence[Limit]) -> None:
        rules = list(_rules(limits))
        self.rules = tuple(rules)
        self.tags = frozenset(
            dimension.removeprefix("tag:")
            for rule in rules
            for dimension in (*rule.each, *(name for name, _ in rule.fixed))
            if dimension.startswith("tag:")
        )
        common = Counter(name for rule in rules for name in rule.needs)
        self._everyone: list[tuple[int, Rule]] = []
        self._needing: dict[tuple[str, str | None], list[tuple[int, Rule]]] = {}
        for place, rule in enumerate(rules):
            if rule.needs:
                rarest = min(rule.needs, key=lambda name: common[name])
                self._needing.setdefault(rarest, []).append((place, rule))
            else:
                self._everyone.append((place, rule))

    def candidates(self, who: Mapping[str, str]) -> list[Rule]:
        """Those that may be about them, in the order of the configuration."""
        found = list(self._everyone)
        for dimension, value in who.items():
            found += self._needing.get((dimension, value), ())
            if dimension.startswith("tag:"):
                found += self._needing.get((dimension, None), ())
        return [rule for _, rule in sorted(found, key=lambda each: each[0])]


def who_asks(caller: Caller, model: str | None, tags: Mapping[str, str]) -> dict[str, str]:
    """A value for each dimension that a request has."""
    who = {"key": public_part(caller.prefix), "team": caller.team}
    if model is not None:
        who["model"] = model
    for name, value in tags.items():
        who[f"tag:{name}"] = value
    return who


def public_part(key: str) -> str:
    """Of a key, or of its public part, however much of it was written down: the twelve digits."""
    return key.removeprefix("nx-").partition("-")[0]


def _rules(limits: Sequence[Limit]) -> Iterator[Rule]:
    met: Counter[str] = Counter()
    for limit in limits:
        each = tuple(sorted(name for name, value in limit.scope.items() if value == EACH and name != "all"))
        fixed = tuple(
            sorted(
                (name, public_part(value) if name == "key" else value)
                for name, value in limit.scope.items()
                if value != EACH and name != "all"
            )
        )
        identity = (limit.name, each, fixed, limit.resource, limit.per, limit.time_zone)
        id = hashlib.blake2b(msgspec.msgpack.encode(identity), digest_size=8).hexdigest()
        met[id] += 1
        if met[id] > 1:  # two of a name: they must not count in one bucket
            id += f".{met[id]}"
        amount = int(limit.amount * 1_000_000 + 0.5) if limit.resource == "cost_usd" else int(limit.amount)
        kind = LEASES if limit.resource == "concurrency" else WINDOW if limit.per in _WINDOW_MS else CALENDAR
        yield Rule(
            id=id,
            limit=limit,
            kind=kind,
            resource=RESOURCES.index(limit.resource) + 1,
            amount=amount,
            window_ms=_WINDOW_MS.get(limit.per or "", 0),
            zone=ZoneInfo(limit.time_zone),
            fixed=fixed,
            each=each,
        )
