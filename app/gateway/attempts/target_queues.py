"""Target queues: at most `max_concurrency` requests at a target, exact over all gateway processes; the others wait their turn.

A place is a concurrency rule's (app/gateway/limits), with its leases: a process that dies gives its places back after a while, and while
Redis is away each process has its share. Who waits is known to this process alone, so turns are fair within a process.
"""

import asyncio
import heapq
import itertools
import os
from collections.abc import Mapping

from app.domain.routing import Target
from app.gateway.limits.limits import Limits
from app.gateway.limits.reservation import Reservation
from app.gateway.limits.rule_matcher import RuleMatch
from app.settings import Settings
from providers.canonical.errors import LimitExceeded, Unavailable

# A place that another process frees is found by trying; one of this process's own wakes who waits.
_POLL_S = 0.05
_RETRY_AFTER_S = 1.0
_MAX_QUEUES = 10_000


class Place:
    """A request's place at a target, until release()."""

    __slots__ = ("_queue", "_reservation")

    def __init__(self, queue: "TargetQueue", reservation: Reservation) -> None:
        self._queue = queue
        self._reservation: Reservation | None = reservation

    def release(self) -> None:
        """Gives the place back. A second call does nothing."""
        if self._reservation is not None:
            self._queue.free(self._reservation)
            self._reservation = None


class _Waiting:
    """A request that waits."""

    __slots__ = ("order", "place")

    def __init__(self, order: tuple[int, int, int]) -> None:
        self.order = order  # the highest priority first, then the turns of teams, then arrival
        self.place: asyncio.Future[Reservation] = asyncio.get_running_loop().create_future()  # done when it has one

    def __lt__(self, other: "_Waiting") -> bool:
        return self.order < other.order


class TargetQueue:
    """The places of one target. Beyond `max_waiting` requests are refused, those whose turn is last: of the lowest priority or the busiest
    team.
    """

    def __init__(self, limits: Limits, match: RuleMatch, max_waiting: int) -> None:
        self._limits = limits
        self._match = match
        self._max_waiting = max_waiting
        self._waiting: list[_Waiting] = []  # a heap
        self._turns: dict[str, int] = {}  # the newest turn of each team
        self._turn = 0
        self._numbers = itertools.count()
        self._id_prefix = os.urandom(8).hex()
        self._freed = asyncio.Event()
        self._giving: asyncio.Task[None] | None = None

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    async def take(self, team_id: str, priority: int, wait_s: float) -> Place:
        """A place. Raises Unavailable if there is none within `wait_s` (0: at once), or too many wait for one."""
        if not self._waiting:
            try:
                return Place(self, await self._reserve())
            except LimitExceeded:
                pass
        if wait_s <= 0:
            raise _busy("all its places are taken.")
        waiting = self._join(team_id, priority)
        try:
            async with asyncio.timeout(wait_s):
                return Place(self, await waiting.place)
        except BaseException as ended:
            self._leave(waiting)
            if waiting.place.done() and not waiting.place.cancelled() and waiting.place.exception() is None:
                self.free(waiting.place.result())  # it came at the same moment
            if isinstance(ended, TimeoutError):
                raise _busy(f"none of its places became free within {wait_s:g} seconds.") from None
            raise

    def free(self, reservation: Reservation) -> None:
        self._limits.cancel(reservation)
        self._freed.set()

    async def _reserve(self) -> Reservation:
        """Raises LimitExceeded, Unavailable."""
        return await self._limits.take_place(f"{self._id_prefix}.{next(self._numbers)}", self._match)

    def _join(self, team_id: str, priority: int) -> _Waiting:
        """Raises Unavailable."""
        # A team's requests have one turn after the other, from the one that is served now: who sends many waits longer, and nobody else.
        turn = max(self._turns.get(team_id, 0), self._turn) + 1
        waiting = _Waiting((-priority, turn, next(self._numbers)))
        if len(self._waiting) >= self._max_waiting:
            last = max(self._waiting, default=waiting)
            if last < waiting or last is waiting:
                raise _busy(f"{len(self._waiting)} requests wait for a place already.")
            self._leave(last)
            last.place.set_exception(_busy("requests of a higher priority, or of teams with fewer requests, took its place in the queue."))
        self._turns[team_id] = turn
        heapq.heappush(self._waiting, waiting)
        if self._giving is None or self._giving.done():
            self._giving = asyncio.create_task(self._give_places())
        return waiting

    def _leave(self, waiting: _Waiting) -> None:
        if waiting in self._waiting:
            self._waiting.remove(waiting)
            heapq.heapify(self._waiting)

    async def _give_places(self) -> None:
        while self._waiting:
            self._freed.clear()
            try:
                taken = await self._reserve()
            except LimitExceeded:
                await self._wait_for_freed()
                continue
            except Exception as fault:  # whatever it is, nobody waits for it in vain
                for each in self._waiting:
                    each.place.set_exception(fault)
                self._waiting.clear()
                break
            if not self._waiting:  # those who waited have left
                self.free(taken)
                break
            first = heapq.heappop(self._waiting)
            self._turn = max(self._turn, first.order[1])
            if first.place.done():
                self.free(taken)
            else:
                first.place.set_result(taken)
        self._turns.clear()
        self._turn = 0

    async def _wait_for_freed(self) -> None:
        try:
            async with asyncio.timeout(_POLL_S):
                await self._freed.wait()
        except TimeoutError:
            pass


class TargetQueues:
    """The queue of each target that has `max_concurrency`, in this process."""

    def __init__(self, settings: Settings, limits: Limits) -> None:
        self._limits = limits
        self._max_waiting = settings.queue_max_waiting
        self._queues: dict[tuple[str, str, str | None, int], TargetQueue] = {}

    async def take(self, target: Target, team_id: str, priority: int, wait_s: float) -> Place | None:
        """A place at the target; None: it needs none. Raises Unavailable if there is none in time (0: at once)."""
        if target.max_concurrency is None:
            return None
        return await self._queue_of(target, target.max_concurrency).take(team_id, priority, wait_s)

    def waiting_counts(self) -> Mapping[str, int]:
        """Returns how many wait, by the name of each target where somebody does."""
        return {_name(key[0], key[1], key[2]): queue.waiting_count for key, queue in self._queues.items() if queue.waiting_count}

    def _queue_of(self, target: Target, max_concurrency: int) -> TargetQueue:
        key = target.provider, target.model, target.lora, max_concurrency
        queue = self._queues.get(key)
        if queue is None:
            if len(self._queues) >= _MAX_QUEUES:  # of configurations that were in force long ago
                self._queues = {key: each for key, each in self._queues.items() if each.waiting_count}
            match = self._limits.match_places(f"target {_name(*key[:3])}", max_concurrency)
            queue = self._queues[key] = TargetQueue(self._limits, match, self._max_waiting)
        return queue


def _name(provider: str, model: str, lora: str | None) -> str:
    return f"{provider}/{model}" + (f"+{lora}" if lora else "")


def _busy(reason: str) -> Unavailable:
    return Unavailable(f"The model has as many requests as it may have: {reason}", retry_after_s=_RETRY_AFTER_S)
