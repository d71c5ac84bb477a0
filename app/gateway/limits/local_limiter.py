"""Local limiter: while Redis is away, this worker enforces its share of each rule, with the arithmetic of the Lua scripts."""

import math
import secrets
from collections.abc import Callable, Collection, Iterator
from typing import Any

from msgspec import Struct

from app.gateway.limits.counters.commands import Amounts
from app.gateway.limits.counters.scripts import REFUSED, TAKEN
from app.gateway.limits.reservation import Reservation
from app.gateway.limits.rule_matcher import Bucket, RuleMatch
from app.gateway.limits.rules import CALENDAR, LEASES, WINDOW

_SLOTS = 17
_MAX_COUNTS = 50_000
# How long requests run is not known locally, so a caller who finds all places taken may retry soon.
_LEASE_WAIT_MS = 1000


class Charge(Struct):
    """Local usage of a bucket that Redis is to count. `id` makes Redis count it once even if it is sent twice."""

    bucket: Bucket
    id: bytes
    amount: int


class _LocalCount:
    """One bucket's local count.

    Until `reduced_until_ms` less than the share may be taken, as Redis had counted usage before: `reduced_left` was left for all workers
    together, of an amount of `reduced_amount`.
    """

    __slots__ = (
        "bucket",
        "charge",
        "in_flight",
        "newest",
        "reduced_amount",
        "reduced_left",
        "reduced_until_ms",
        "reported",
        "running",
        "slots",
    )

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self.newest = 0
        self.slots: dict[int, int] = {}  # amounts by slot of time
        self.running: set[bytes] = set()  # reservations that hold a place
        self.in_flight = 0  # how much of the slots is held by reservations that are not settled
        self.reported = 0  # how much Redis has counted already
        self.charge: Charge | None = None  # a report whose outcome is not known; None: there is none
        self.reduced_left = 0
        self.reduced_amount = 0
        self.reduced_until_ms = 0.0

    def total(self, slot: int) -> int:
        """The sum as of a slot. Slots that no longer count are dropped."""
        self.newest = max(self.newest, slot)
        oldest = self.newest - (_SLOTS - 1 if self.bucket.rule.kind == WINDOW else 0)
        if self.slots and min(self.slots) < oldest:
            self.slots = {index: count for index, count in self.slots.items() if index >= oldest}
            self.reported = min(self.reported, sum(self.slots.values()))
        return sum(self.slots.values())


class LocalLimiter:
    """take() replies as take.lua does. `holders` gives the reservations that hold a place of a bucket already, in Redis or locally."""

    def __init__(self, clock_ms: Callable[[], float], holders: Callable[[bytes], Collection[bytes]]) -> None:
        self._clock_ms = clock_ms
        self._holders = holders
        self._counts: dict[bytes, _LocalCount] = {}

    def take(self, reservation: Reservation, match: RuleMatch, need: Amounts, workers: int) -> list[Any]:
        """Takes from all buckets or from none. The reservation changes only if it is taken."""
        now_ms = self._clock_ms()
        taken: list[Any] = [TAKEN, int(now_ms), 0]
        refused: list[Any] = [REFUSED, int(now_ms), 0, -1]
        worst = 0
        count_slots: list[tuple[_LocalCount, int]] = []
        for index, bucket in enumerate(match.buckets):
            rule, needed = bucket.rule, need[bucket.rule.resource - 1]
            count = self._count(match, index, bucket, now_ms)
            amount = bucket.amount_at(now_ms)
            share = amount // max(1, workers)
            if now_ms < count.reduced_until_ms:
                share = min(share, max(0, count.reduced_left + amount - count.reduced_amount) // max(1, workers))
            slot, finish_ms = _slot_for(bucket, now_ms)
            used = len(count.running) if rule.kind == LEASES else count.total(slot)
            remaining = share - used
            wait, is_estimate = 0, rule.kind == LEASES
            if needed > max(amount, rule.amount):
                wait = -1
            elif needed > remaining and needed > 0:
                wait = max(1, math.ceil(_free_at_ms(count, needed - remaining, finish_ms) - now_ms))
                if needed - remaining <= count.in_flight and wait > _LEASE_WAIT_MS:
                    wait, is_estimate = _LEASE_WAIT_MS, True
            count_slots.append((count, count.newest if rule.kind == WINDOW else slot))
            reset = max(0, math.ceil(finish_ms - now_ms))
            refused += (max(0, remaining), reset if used else 0, wait, int(is_estimate and wait > 0))
            taken += (remaining - needed, reset)
            if not rule.limit.dry_run and wait and worst >= 0 and (wait < 0 or wait > worst):
                worst, refused[3] = wait, index
        if refused[3] >= 0:
            return refused
        taken_amounts = reservation.local_amounts if reservation.local_amounts is not None else []
        for count, slot in count_slots:
            needed = need[count.bucket.rule.resource - 1]
            if count.bucket.rule.kind == LEASES:
                count.running.add(reservation.id)
            else:
                count.slots[slot] = count.slots.get(slot, 0) + needed
                if count.bucket.rule.limit.resource != "requests":
                    count.in_flight += needed
            taken_amounts.append((count.bucket, slot, needed))
        reservation.local_amounts = taken_amounts
        reservation.used_local_share = True
        return taken

    def settle(self, reservation: Reservation, spent: Amounts) -> None:
        """Replaces what take() took with what was spent; the reservation then holds nothing locally.

        Less is returned to the slot it was taken from; more is added to the present one.
        """
        now_ms = self._clock_ms()
        for bucket, slot, needed in reservation.local_amounts or ():
            count = self._counts.get(bucket.key)
            if count is None:
                continue
            if bucket.rule.kind == LEASES:
                count.running.discard(reservation.id)
                continue
            if bucket.rule.limit.resource != "requests":
                count.in_flight = max(0, count.in_flight - needed)
            difference = spent[bucket.rule.resource - 1] - needed
            current_slot, _ = _slot_for(bucket, now_ms)
            count.total(current_slot)
            if difference > 0:
                count.slots[count.newest] = count.slots.get(count.newest, 0) + difference
            elif slot in count.slots:
                count.slots[slot] = max(0, count.slots[slot] + difference)
        reservation.local_amounts = None

    def release_leases(self, reservation: Reservation) -> None:
        """Frees the local places of a reservation that Redis counted."""
        for bucket in reservation.buckets:
            count = self._counts.get(bucket.key)
            if count is not None:
                count.running.discard(reservation.id)

    @property
    def is_used(self) -> bool:
        """Whether anything was counted since the last report."""
        return bool(self._counts)

    def pending_charges(self) -> Iterator[Charge]:
        """Local usage that Redis has not counted yet. A charge whose outcome is not known is repeated unchanged, before any new one."""
        now_ms = self._clock_ms()
        for count in self._counts.values():
            if count.bucket.rule.kind == LEASES:
                continue
            if count.charge is None:
                slot, _ = _slot_for(count.bucket, now_ms)
                amount = count.total(slot) - count.reported
                if amount > 0:
                    count.charge = Charge(count.bucket, secrets.token_hex(16).encode(), amount)
            if count.charge is not None:
                yield count.charge

    def confirm_charge(self, charge: Charge) -> None:
        """Redis has counted it, or will read it from the records."""
        count = self._counts.get(charge.bucket.key)
        if count is not None and count.charge is charge:
            count.reported += charge.amount
            count.charge = None

    def discard_reported(self) -> None:
        """Forgets everything that Redis has counted; charges whose outcome is not known stay."""
        self._counts = {key: count for key, count in self._counts.items() if count.charge is not None}

    def _count(self, match: RuleMatch, index: int, bucket: Bucket, now_ms: float) -> _LocalCount:
        count = self._counts.get(bucket.key)
        if count is None:
            if len(self._counts) >= _MAX_COUNTS:
                self._purge(now_ms)
            count = self._counts[bucket.key] = _LocalCount(bucket)
            rule = bucket.rule
            if rule.kind == LEASES:
                count.running.update(self._holders(bucket.key))
            elif match.last_reply is not None:
                # What Redis last reported as left is all that is left until that window or period ends; each worker takes its share of it.
                _, finish_ms = _slot_for(bucket, now_ms)
                last_ms = match.last_reply[1]
                count.reduced_left, count.reduced_amount = match.last_reply[3 + 2 * index], bucket.amount_at(last_ms)
                if rule.kind == WINDOW and now_ms < last_ms + rule.window_ms * _SLOTS / 16:
                    count.reduced_until_ms = last_ms + rule.window_ms * _SLOTS / 16
                elif rule.kind == CALENDAR and _slot_for(bucket, last_ms)[0] == _slot_for(bucket, now_ms)[0]:
                    count.reduced_until_ms = finish_ms
        return count

    def _purge(self, now_ms: float) -> None:
        for key, count in list(self._counts.items()):
            is_unused = not count.running and not count.total(_slot_for(count.bucket, now_ms)[0])
            if is_unused and now_ms >= count.reduced_until_ms:
                del self._counts[key]


def _slot_for(bucket: Bucket, now_ms: float) -> tuple[int, float]:
    """The slot in which an amount taken now is counted, and when it is free again (by Redis's clock, in ms)."""
    rule = bucket.rule
    if rule.kind == WINDOW:
        width = rule.window_ms / 16
        slot = int(now_ms // width)
        return slot, (slot + _SLOTS) * width
    if rule.kind == CALENDAR:
        start, finish, _ = rule.period_at(now_ms)
        return start, finish
    return 0, now_ms + _LEASE_WAIT_MS


def _free_at_ms(count: _LocalCount, excess: int, finish_ms: float) -> float:
    """Returns the time in ms when `excess` more will be free, if no other request comes."""
    if count.bucket.rule.kind != WINDOW:
        return finish_ms
    width = count.bucket.rule.window_ms / 16
    free = max(count.reduced_until_ms, 0.0)
    for slot, taken in sorted(count.slots.items()):
        if excess <= 0:
            break
        excess -= taken
        free = (slot + _SLOTS) * width
    return free if excess <= 0 else max(free, count.reduced_until_ms, finish_ms)
