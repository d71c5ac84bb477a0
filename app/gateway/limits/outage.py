"""While Redis is away: this worker's share of each rule, counted here with the arithmetic of the scripts."""

import math
import secrets
from collections.abc import Callable, Collection, Iterator
from typing import Any

from msgspec import Struct

from app.gateway.limits.match import Bucket, Match
from app.gateway.limits.periods import period
from app.gateway.limits.rules import CALENDAR, LEASES, WINDOW
from app.gateway.limits.ticket import Ticket
from app.store.counters.commands import Amounts
from app.store.counters.scripts import REFUSED, TAKEN

_SLOTS = 17
_MOST_COUNTS = 50_000
# How long requests run is not known here; whoever finds all places taken may ask again soon.
_LEASE_WAIT_MS = 1000


class Charge(Struct):
    """What Redis is to be told of a bucket; `id` makes sure that it is counted once, though it may be told twice."""

    bucket: Bucket
    id: bytes
    amount: int


class _Count:
    """A bucket here. `told`: how much of it Redis knows. `until_ms`: as long as less than the share may be taken, and `less`: how much."""

    __slots__ = ("bucket", "charge", "less", "newest", "running", "slots", "told", "until_ms")

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self.newest = 0
        self.slots: dict[int, int] = {}
        self.running: set[bytes] = set()
        self.told = 0
        self.charge: Charge | None = None
        self.less: int | None = None
        self.until_ms = 0.0

    def sum(self, place: int) -> int:
        """As of a place, of which the oldest are forgotten."""
        self.newest = max(self.newest, place)
        oldest = self.newest - (_SLOTS - 1 if self.bucket.rule.kind == WINDOW else 0)
        if self.slots and min(self.slots) < oldest:
            self.slots = {at: count for at, count in self.slots.items() if at >= oldest}
            self.told = min(self.told, sum(self.slots.values()))
        return sum(self.slots.values())


class Local:
    """take() answers as the script does. `holders`: tickets that hold a place of a bucket already, whoever counted them."""

    def __init__(self, clock_ms: Callable[[], float], holders: Callable[[bytes], Collection[bytes]]) -> None:
        self._clock_ms = clock_ms
        self._holders = holders
        self._counts: dict[bytes, _Count] = {}

    def take(self, ticket: Ticket, match: Match, need: Amounts, workers: int) -> list[Any]:
        """Takes from all buckets or from none. Changes the ticket only if it is taken."""
        now_ms = self._clock_ms()
        taken: list[Any] = [TAKEN, int(now_ms), 0]
        refused: list[Any] = [REFUSED, int(now_ms), 0, -1]
        worst = 0
        places: list[tuple[_Count, int]] = []
        for index, bucket in enumerate(match.buckets):
            rule, needed = bucket.rule, need[bucket.rule.resource - 1]
            count = self._count(match, index, bucket, workers, now_ms)
            share = rule.amount // max(1, workers)
            if count.less is not None and now_ms < count.until_ms:
                share = min(share, count.less)
            place, finish_ms = _place(bucket, now_ms)
            used = len(count.running) if rule.kind == LEASES else count.sum(place)
            left = share - used
            wait = 0
            if needed > rule.amount:
                wait = -1
            elif needed > left and needed > 0:
                wait = max(1, math.ceil(_free_ms(count, needed - left, finish_ms) - now_ms))
            places.append((count, count.newest if rule.kind == WINDOW else place))
            reset = max(0, math.ceil(finish_ms - now_ms))
            refused += (max(0, left), reset if used else 0, wait)
            taken += (left - needed, reset)
            if not rule.limit.dry_run and wait and worst >= 0 and (wait < 0 or wait > worst):
                worst, refused[3] = wait, index
        if refused[3] >= 0:
            return refused
        at = ticket.at if ticket.at is not None else []
        for count, place in places:
            needed = need[count.bucket.rule.resource - 1]
            if count.bucket.rule.kind == LEASES:
                count.running.add(ticket.id)
            else:
                count.slots[place] = count.slots.get(place, 0) + needed
            at.append((count.bucket, place, needed))
        ticket.at = at
        ticket.local = True
        return taken

    def settle(self, ticket: Ticket, spent: Amounts) -> None:
        """Brings what take() took to what was spent: less where it was taken, more now. The ticket is this worker's no longer."""
        now_ms = self._clock_ms()
        for bucket, place, needed in ticket.at or ():
            count = self._counts.get(bucket.key)
            if count is None:
                continue
            if bucket.rule.kind == LEASES:
                count.running.discard(ticket.id)
                continue
            more = spent[bucket.rule.resource - 1] - needed
            now, _ = _place(bucket, now_ms)
            count.sum(now)
            if more > 0:
                count.slots[count.newest] = count.slots.get(count.newest, 0) + more
            elif place in count.slots:
                count.slots[place] = max(0, count.slots[place] + more)
        ticket.at = None

    def left(self, ticket: Ticket) -> None:
        """A ticket that Redis counted is over: its places are free here too."""
        for bucket in ticket.buckets:
            count = self._counts.get(bucket.key)
            if count is not None:
                count.running.discard(ticket.id)

    def charges(self) -> Iterator[Charge]:
        """What Redis does not know yet. A charge whose fate is unknown comes first, as it was."""
        now_ms = self._clock_ms()
        for count in self._counts.values():
            if count.bucket.rule.kind == LEASES:
                continue
            if count.charge is None:
                place, _ = _place(count.bucket, now_ms)
                amount = count.sum(place) - count.told
                if amount > 0:
                    count.charge = Charge(count.bucket, secrets.token_hex(16).encode(), amount)
            if count.charge is not None:
                yield count.charge

    def charged(self, charge: Charge) -> None:
        count = self._counts.get(charge.bucket.key)
        if count is not None and count.charge is charge:
            count.told += charge.amount
            count.charge = None

    def forget(self) -> None:
        """Redis knows it all, but for charges whose fate is unknown."""
        self._counts = {key: count for key, count in self._counts.items() if count.charge is not None}

    def _count(self, match: Match, index: int, bucket: Bucket, workers: int, now_ms: float) -> _Count:
        count = self._counts.get(bucket.key)
        if count is None:
            if len(self._counts) >= _MOST_COUNTS:
                self._purge(now_ms)
            count = self._counts[bucket.key] = _Count(bucket)
            rule = bucket.rule
            if rule.kind == LEASES:
                count.running.update(self._holders(bucket.key))
            elif match.last is not None:
                # What Redis last said is left is all that is left, until the time it spoke of has passed; each worker takes its share.
                _, finish_ms = _place(bucket, now_ms)
                last_ms = match.last[1]
                if rule.kind == WINDOW and now_ms < last_ms + rule.window_ms * _SLOTS / 16:
                    count.until_ms = last_ms + rule.window_ms * _SLOTS / 16
                    count.less = max(0, match.last[3 + 2 * index]) // max(1, workers)
                elif rule.kind == CALENDAR and _place(bucket, last_ms)[0] == _place(bucket, now_ms)[0]:
                    count.until_ms = finish_ms
                    count.less = max(0, match.last[3 + 2 * index]) // max(1, workers)
        return count

    def _purge(self, now_ms: float) -> None:
        for key, count in list(self._counts.items()):
            idle = not count.running and not count.sum(_place(count.bucket, now_ms)[0])
            if idle and now_ms >= count.until_ms:
                del self._counts[key]


def _place(bucket: Bucket, now_ms: float) -> tuple[int, float]:
    """Where an amount taken now is counted, and when it is free again."""
    rule = bucket.rule
    if rule.kind == WINDOW:
        width = rule.window_ms / 16
        slot = int(now_ms // width)
        return slot, (slot + _SLOTS) * width
    if rule.kind == CALENDAR:
        start, finish, _ = period("day" if rule.limit.per == "day" else "month", rule.zone, now_ms)
        return start, finish
    return 0, now_ms + _LEASE_WAIT_MS


def _free_ms(count: _Count, over: int, finish_ms: float) -> float:
    """When so much more will be free, if nothing else comes."""
    if count.bucket.rule.kind != WINDOW:
        return finish_ms
    width = count.bucket.rule.window_ms / 16
    free = max(count.until_ms, 0.0)
    for slot, taken in sorted(count.slots.items()):
        if over <= 0:
            break
        over -= taken
        free = (slot + _SLOTS) * width
    return free if over <= 0 else max(free, count.until_ms, finish_ms)
