"""Limits: reserve before a request, settle after. What all rules that are about a request allow is taken in one call, or not at all."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any, cast

from sqlalchemy.ext.asyncio import AsyncEngine

from app.domain import Caller, Directory
from app.gateway.limits import refusal, states
from app.gateway.limits.match import Match, Matches
from app.gateway.limits.memory import Memory
from app.gateway.limits.need import NOTHING, Need, Spent
from app.gateway.limits.outage import Charge, Local, renewable
from app.gateway.limits.outbox import Outbox
from app.gateway.limits.rules import Table
from app.gateway.limits.seeding import Ledger, Seeding
from app.gateway.limits.states import Preview, RuleState
from app.gateway.limits.ticket import LOCAL, Ticket
from app.settings import Settings
from app.store.away import AWAY
from app.store.counters import commands
from app.store.counters.commands import FORCE, LOOK, TAKE, UNSEEDED_TOO, Amounts, Row
from app.store.counters.connection import Away, Says
from app.store.counters.counters import LONGEST_PAUSE_S, Counters
from app.store.counters.scripts import FORGOTTEN, REFUSED, TAKEN, UNSEEDED, WRONG_TIME
from app.telemetry import Telemetry
from providers.errors import LimitReached, Unavailable

log = logging.getLogger(__name__)

# How often one reserve() may be answered with something to be done first: an epoch, a seed, another period.
_MOST_TRIES = 6
_RENEWED_AT_ONCE = 500


class Limits:
    """One for each worker. reserve() each request, settle() each ticket; swap() when the rules change.

    `workers_alive`: how many workers there are, all machines together, that share a rule while Redis is away.
    """

    def __init__(
        self,
        settings: Settings,
        counters: Counters,
        database: AsyncEngine,
        ledger: Ledger,
        telemetry: Telemetry,
        workers_alive: Callable[[], int],
    ) -> None:
        self._lease_ms = int(settings.limits_lease_s * 1000)
        self._counters = counters
        self._telemetry = telemetry
        self._workers_alive = workers_alive
        self._memory = Memory(counters, database)
        self._seeding = Seeding(counters, ledger)
        self._born: int | None = None
        self._skew_ms = 0.0
        self._live: dict[bytes, Ticket] = {}
        self._outbox = Outbox(counters)
        # Taken here while Redis was away, and to be taken there.
        self._owed: dict[bytes, Ticket] = {}
        self._local = Local(self._now_ms, self._holders)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._renewing: asyncio.Task[None] | None = None
        self._down_s: float | None = None
        self._limits: Any = None
        self._matches = Matches(Table(()), counters.scripts, self._lease_ms, self._now_ms)
        counters.on_up = self._make_up
        counters.on_down = self._down

    @property
    def up(self) -> bool:
        """Whether Redis answers."""
        return self._counters.up

    @property
    def on_their_way(self) -> int:
        """How much Redis has yet to confirm."""
        return len(self._outbox) + len(self._owed) + len(self._tasks)

    def swap(self, directory: Directory) -> None:
        """The rules of a new snapshot. Tickets keep those they were taken by."""
        if directory.limits != self._limits:
            self._limits = directory.limits
            self._matches = Matches(Table(directory.limits), self._counters.scripts, self._lease_ms, self._now_ms)

    async def start(self) -> None:
        """Also without Redis, after a moment."""
        await self._counters.start()
        self._telemetry.redis_away(not self._counters.up)
        self._renewing = asyncio.create_task(self._keep_renewing())

    async def stop(self, patience_s: float = 2.0) -> None:
        """Waits a moment for what was settled last."""
        for _ in range(int(patience_s * 100)):
            if not self._outbox or not self._counters.up:
                break
            await asyncio.sleep(0.01)
        for task in (self._renewing, *self._tasks):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        self._memory.stop()
        await self._counters.stop()

    async def reserve(self, id: str, caller: Caller, model: str, tags: Mapping[str, str], need: Need) -> Ticket | None:
        """None: no rule is about it, so there is nothing to settle. Whoever is cancelled in here holds nothing.

        Raises LimitReached (NeverFits where waiting does not help), Unavailable.
        """
        match = self._matches.of(caller, model, tags)
        if match is None:
            return None
        if need.cost_microusd is None and match.priced is not None:
            raise refusal.no_price(match.priced, model)
        ticket = Ticket(id.encode(), match, need.amounts())
        ticket.reply = await self._take(ticket, match, ticket.need, 0)
        self._live[ticket.id] = ticket
        return ticket

    async def also(self, ticket: Ticket | None, id: str, caller: Caller, model: str, tags: Mapping[str, str], need: Need) -> Ticket | None:
        """What a fallback's model asks for, beyond what the ticket holds. Where it raises, the ticket is as it was: try another."""
        if ticket is None:
            return await self.reserve(id, caller, model, tags, need)
        match = self._matches.of(caller, model, tags)
        if match is None:
            return ticket
        if need.cost_microusd is None and match.priced is not None:
            raise refusal.no_price(match.priced, model)
        held = ticket.buckets
        keys = {bucket.key for bucket in held}
        more = [bucket for bucket in match.buckets if bucket.key not in keys]
        if more:
            match = self._matches.made_of(more)
            ticket.rest.append((match, []))  # first: whatever becomes of this, its buckets are settled with the others
            try:
                reply = await self._take(ticket, match, need.amounts(), len(held))
            except (LimitReached, Unavailable):
                if not ticket.unsure:
                    ticket.rest.pop()
                raise
            ticket.rest[-1] = (match, reply)
        return ticket

    def settle(self, ticket: Ticket, spent: Spent) -> None:
        """What was spent in truth; places are free. Told to Redis with this turn's writes, and again until it is known. Once is enough."""
        self._end(ticket, spent.amounts())

    def cancel(self, ticket: Ticket) -> None:
        """As if it had never been: for a request that no engine was asked."""
        self._end(ticket, NOTHING)

    async def look(self, caller: Caller, model: str | None, tags: Mapping[str, str]) -> list[RuleState]:
        """The rules about a caller and how much of each is left. Raises Unavailable."""
        match = self._matches.of(caller, model, tags)
        if match is None:
            return []
        return states.states(match, await self._look(match, NOTHING), NOTHING)

    async def preview(self, caller: Caller, model: str, tags: Mapping[str, str], need: Need) -> Preview:
        """What would become of a request that came now. Changes nothing. Raises LimitReached (no price), Unavailable."""
        match = self._matches.of(caller, model, tags)
        if match is None:
            return Preview((), None, None)
        if need.cost_microusd is None and match.priced is not None:
            raise refusal.no_price(match.priced, model)
        amounts = need.amounts()
        return states.preview(match, await self._look(match, amounts), amounts)

    # --- taking

    async def _take(self, ticket: Ticket, match: Match, need: Amounts, base: int) -> list[Any]:
        counters = self._counters
        mode = TAKE
        for _ in range(_MOST_TRIES):
            if not counters.up:
                break
            try:
                reply: list[Any] = await counters.call(match.row.take(ticket.id, need, mode, base))
                if len(reply) > 2 and reply[2] != self._born:
                    self._met(reply[2])
                if reply[0] == TAKEN:
                    match.last = reply
                    ticket.born = reply[2]
                    if match.tried:
                        self._count_tried(match, reply)
                    return reply
                if reply[0] == REFUSED:
                    self._telemetry.limit_reached(match.rule(reply[3]).name)
                    raise refusal.refusal(match, reply, need)
                mode = await self._prepare(match, reply, mode)
            except Away as away:
                ticket.unsure = ticket.unsure or not away.unsent
                break
            except Says as error:
                log.error("Redis refuses what limits ask of it", extra={"said": str(error)})
                break
            except asyncio.CancelledError:
                if base == 0:
                    self._cancel(ticket)
                raise
        return self._take_here(ticket, match, need, base)

    def _take_here(self, ticket: Ticket, match: Match, need: Amounts, base: int) -> list[Any]:
        """Without Redis: this worker's share, if the rules will do with that."""
        try:
            if match.refusing is not None:
                raise refusal.unavailable(match.refusing)
            reply = self._local.take(ticket, match, need, self._workers_alive())
            if reply[0] == REFUSED:
                self._telemetry.limit_reached(match.rule(reply[3]).name)
                refused = refusal.refusal(match, reply, need)
                refused.headers = [*refused.headers, LOCAL]
                refused.message += " Redis is away: until it is back, this is of one worker's share."
                raise refused
        except (LimitReached, Unavailable):
            if ticket.unsure and base == 0:
                self._cancel(ticket)
            raise
        self._telemetry.limits_local()
        return reply

    async def _prepare(self, match: Match, reply: list[Any], mode: int) -> int:
        """Does what the script asks for before it can answer, and says in which mode to ask again. Raises Unavailable, Away, Says."""
        if reply[0] == FORGOTTEN:
            await self._memory.begin()
        elif reply[0] == WRONG_TIME:
            self._skew_ms = reply[1] - time.time() * 1000
            self._matches.renew_periods(match)
        elif reply[0] == UNSEEDED:
            indexes: list[int] = reply[3:]
            buckets = [match.buckets[index] for index in indexes]
            try:
                await asyncio.gather(*(self._seeding.seed(bucket, reply[2], reply[1]) for bucket in buckets))
            except AWAY as fault:
                log.warning("the ledger cannot say what was spent before Redis lost its memory", extra={"fault": repr(fault)})
                for bucket in buckets:
                    if bucket.rule.limit.on_outage == "refuse" and not bucket.rule.limit.dry_run:
                        raise refusal.unavailable(bucket.rule) from None
                return mode | UNSEEDED_TOO
        else:
            raise Says(f"answer {reply[0]}")
        return mode

    async def _look(self, match: Match, need: Amounts) -> list[Any]:
        mode = LOOK
        with contextlib.suppress(Away, Says):
            for _ in range(_MOST_TRIES):
                if not self._counters.up:
                    break
                reply: list[Any] = await self._counters.call(match.row.take(b"", need, mode))
                if reply[0] == REFUSED:
                    return reply
                mode = await self._prepare(match, reply, mode)
        raise refusal.unavailable(match.buckets[0].rule)

    def _count_tried(self, match: Match, reply: list[Any]) -> None:
        for index in match.tried:
            if reply[3 + 2 * index] < 0:
                self._telemetry.limit_would_refuse(match.rule(index).name)

    # --- settling

    def _end(self, ticket: Ticket, spent: Amounts) -> None:
        if ticket.settled:
            return
        ticket.settled = True
        self._live.pop(ticket.id, None)
        if ticket.at is not None:
            self._local.settle(ticket, spent)
            if ticket.born is None:
                if ticket.unsure:  # it was counted here: what Redis may have counted is to be undone
                    self._cancel(ticket)
                return
        elif not self._counters.up:
            self._local.left(ticket)
        self._outbox.post(self._row(ticket).settle(ticket.id, spent))

    def _cancel(self, ticket: Ticket) -> None:
        self._outbox.post(self._row(ticket).settle(ticket.id, NOTHING))

    def _row(self, ticket: Ticket) -> Row:
        return self._matches.made_of(ticket.buckets).row if ticket.rest else ticket.match.row

    # --- connections and memories

    async def _make_up(self) -> None:
        """On each new connection: what Redis has missed is told before anything new is asked. Raises Away or Says."""
        if (await self._renew())[0] == FORGOTTEN and (self._limits or self._live or self._outbox):
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

    def _owe(self, ticket: Ticket) -> asyncio.Task[None]:
        asked = self._counters.ask(self._row(ticket).take(ticket.id, ticket.need, FORCE))

        async def told() -> None:
            reply = await asked
            if reply[0] == TAKEN:
                ticket.born = reply[2]
                self._owed.pop(ticket.id, None)

        return asyncio.ensure_future(told())

    def _charge(self, charge: Charge) -> asyncio.Task[None]:
        match = self._matches.made_of([charge.bucket])
        need = [0] * 6
        need[charge.bucket.rule.resource - 1] = charge.amount
        asked = self._counters.ask(match.row.take(charge.id, cast(Amounts, tuple(need)), FORCE))

        async def told() -> None:
            if (await asked)[0] == TAKEN:
                self._local.charged(charge)

        return asyncio.ensure_future(told())

    async def _until_told(self, told: list[asyncio.Task[None]]) -> None:
        done = await asyncio.gather(*told, return_exceptions=True)
        if not any(done) and self._counters.up:
            self._local.forget()

    def _down(self) -> None:
        self._down_s = self._down_s or time.monotonic()
        self._telemetry.redis_away(True)

    def _met(self, born: int) -> None:
        """The memory that answers is not the one we knew, or the first that we meet."""
        known, self._born = self._born, born
        self._memory.remember()
        if known is None:
            return
        for ticket in self._live.values():
            if ticket.born is not None and ticket.born != born:
                self._owed[ticket.id] = ticket
        with contextlib.suppress(Away):  # the next connection will find them owed
            told = [self._owe(ticket) for ticket in self._owed.values()]
            self._spawn(self._until_told(told))

    async def _renew(self) -> list[Any]:
        """All leases that Redis counts; from the answer, which memory it has. Raises Away or Says."""
        leases = renewable([ticket for ticket in self._live.values() if ticket.born is not None])
        reply: list[Any] = []
        for start in range(0, max(1, len(leases)), _RENEWED_AT_ONCE):
            some = leases[start : start + _RENEWED_AT_ONCE]
            reply = await self._counters.call(commands.renew(self._counters.scripts, self._lease_ms, some))
            if reply[0] == FORGOTTEN:
                return reply
        if reply[2] != self._born:
            self._met(reply[2])
        return reply

    async def _keep_renewing(self) -> None:
        while True:
            await asyncio.sleep(self._lease_ms / 3000)
            if not self._counters.up or not (self._limits or self._live):
                continue
            with contextlib.suppress(Away, Says):
                if (await self._renew())[0] == FORGOTTEN and self._live:
                    await self._memory.begin()
                    await self._renew()

    def _holders(self, key: bytes) -> Collection[bytes]:
        return [ticket.id for ticket in self._live.values() if key in ticket.match.leased]

    def _now_ms(self) -> float:
        """By Redis's clock, as far as it is known."""
        return time.time() * 1000 + self._skew_ms

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
