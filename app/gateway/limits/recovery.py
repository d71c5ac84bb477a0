"""Recovery: what runs stays counted, through lost connections and lost memories: Redis is told what it missed, and leases are renewed."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any, cast

from app.gateway.limits.match import Bucket, Match
from app.gateway.limits.memory import Memory
from app.gateway.limits.need import NOTHING
from app.gateway.limits.outage import Charge, Local
from app.gateway.limits.outbox import Outbox
from app.gateway.limits.rules import LEASES
from app.gateway.limits.ticket import Ticket
from app.store.counters import commands
from app.store.counters.commands import FORCE, Amounts
from app.store.counters.connection import Away, Says
from app.store.counters.counters import LONGEST_PAUSE_S, Counters
from app.store.counters.scripts import FORGOTTEN, TAKEN
from app.telemetry import Telemetry

log = logging.getLogger(__name__)

_RENEWED_AT_ONCE = 500


class Recovery:
    """begin() each ticket, end() it when its request is over; met() with each answer that tells of another memory than `born`.

    `made_of`: the Match of these buckets. `has_rules`: without them and without tickets, Redis is left alone.
    """

    def __init__(
        self,
        counters: Counters,
        memory: Memory,
        local: Local,
        outbox: Outbox,
        telemetry: Telemetry,
        lease_ms: int,
        made_of: Callable[[Sequence[Bucket]], Match],
        has_rules: Callable[[], bool],
    ) -> None:
        self.born: int | None = None
        self._counters = counters
        self._memory = memory
        self._local = local
        self._outbox = outbox
        self._telemetry = telemetry
        self._lease_ms = lease_ms
        self._made_of = made_of
        self._has_rules = has_rules
        self._live: dict[bytes, Ticket] = {}
        # Taken here while Redis was away, and to be taken there.
        self._owed: dict[bytes, Ticket] = {}
        self._down_s: float | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._renewing: asyncio.Task[None] | None = None
        counters.on_up = self._make_up
        counters.on_down = self._down

    def __len__(self) -> int:
        """How much is being made up for."""
        return len(self._owed) + len(self._tasks)

    def start(self) -> None:
        self._telemetry.redis_away(not self._counters.up)
        self._renewing = asyncio.create_task(self._keep_renewing())

    async def stop(self) -> None:
        for task in (self._renewing, *self._tasks):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    def begin(self, ticket: Ticket) -> None:
        self._live[ticket.id] = ticket

    def end(self, ticket: Ticket) -> None:
        self._live.pop(ticket.id, None)

    def holders(self, key: bytes) -> Collection[bytes]:
        """Tickets that hold a place of a bucket."""
        return [ticket.id for ticket in self._live.values() if any(key in match.leased for match in ticket.matches)]

    def met(self, born: int) -> None:
        """The memory that answers is not the one we knew, or the first that we meet."""
        known, self.born = self.born, born
        self._memory.remember()
        if known is None:
            return
        for ticket in self._live.values():
            if ticket.born is not None and ticket.born != born:
                self._owed[ticket.id] = ticket
        with contextlib.suppress(Away):  # the next connection will find them owed
            told = [self._owe(ticket) for ticket in self._owed.values()]
            self._spawn(self._until_told(told))

    # --- a new connection

    async def _make_up(self) -> None:
        """What Redis has missed is told before anything new is asked. Raises Away or Says."""
        if (await self._renew())[0] == FORGOTTEN and (self._has_rules() or self._live or self._outbox):
            await self._memory.begin()
            await self._renew()
        if self._down_s is not None and (time.monotonic() - self._down_s) * 1000 > self._lease_ms / 2:
            # Leases may have ended of requests that run on. Nobody takes their places until every worker was able to renew its own.
            await asyncio.sleep(LONGEST_PAUSE_S + 0.5)
            await self._renew()
        # From here on nothing is awaited: what is sent now is done before what requests send next.
        for ticket in self._live.values():
            if ticket.at is not None:
                if ticket.born is None:
                    self._local.settle(ticket, NOTHING)
                    self._owed[ticket.id] = ticket
                else:
                    ticket.at = None  # its later part stays charged as it was estimated
        told = [self._owe(ticket) for ticket in self._owed.values()]
        told += [self._charge(charge) for charge in self._local.charges()]
        self._outbox.send_again()
        if told:
            self._spawn(self._until_told(told))
        self._down_s = None
        self._telemetry.redis_away(False)

    def _down(self) -> None:
        self._down_s = self._down_s or time.monotonic()
        self._telemetry.redis_away(True)

    def _owe(self, ticket: Ticket) -> asyncio.Task[bool]:
        asked = self._counters.ask(self._made_of(ticket.buckets).row.take(ticket.id, ticket.need, FORCE))

        async def told() -> bool:
            reply = await asked
            if reply[0] == TAKEN:
                ticket.born = reply[2]
                self._owed.pop(ticket.id, None)
            return reply[0] == TAKEN

        return asyncio.ensure_future(told())

    def _charge(self, charge: Charge) -> asyncio.Task[bool]:
        match = self._made_of([charge.bucket])
        need = [0] * 6
        need[charge.bucket.rule.resource - 1] = charge.amount
        asked = self._counters.ask(match.row.take(charge.id, cast(Amounts, tuple(need)), FORCE))

        async def told() -> bool:
            reply = await asked
            if reply[0] == TAKEN:
                self._local.charged(charge)
            return reply[0] == TAKEN

        return asyncio.ensure_future(told())

    async def _until_told(self, told: list[asyncio.Task[bool]]) -> None:
        done = await asyncio.gather(*told, return_exceptions=True)
        if not self._counters.up:
            return
        if all(each is True for each in done):
            self._local.forget()
        else:  # a server that answers and cannot write, say
            self._counters.break_off()

    # --- leases

    async def _renew(self) -> list[Any]:
        """All leases that Redis counts; from the answer, which memory it has. Raises Away or Says."""
        leases = self._leases()
        reply: list[Any] = []
        for start in range(0, max(1, len(leases)), _RENEWED_AT_ONCE):
            some = leases[start : start + _RENEWED_AT_ONCE]
            reply = await self._counters.call(commands.renew(self._counters.scripts, self._lease_ms, some))
            if reply[0] == FORGOTTEN:
                return reply
        if reply[2] != self.born:
            self.met(reply[2])
        return reply

    async def _keep_renewing(self) -> None:
        while True:
            await asyncio.sleep(self._lease_ms / 3000)
            if not self._counters.up or not (self._has_rules() or self._live):
                continue
            try:
                if (await self._renew())[0] == FORGOTTEN and self._live:
                    await self._memory.begin()
                    await self._renew()
            except (Away, Says):
                pass
            except Exception:  # what runs must stay counted, whatever went wrong once
                log.exception("leases could not be renewed")

    def _leases(self) -> list[tuple[bytes, bytes]]:
        """Bucket and ticket of each that Redis counts."""
        return [
            (bucket.key, ticket.id)
            for ticket in self._live.values()
            if ticket.born is not None and (ticket.match.leased or ticket.rest)
            for bucket in ticket.buckets
            if bucket.rule.kind == LEASES
        ]

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
