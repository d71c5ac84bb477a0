"""Limits: reserve before a request, settle after. What all rules that are about a request allow is taken in one call, or not at all."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy.ext.asyncio import AsyncEngine

from app.domain import Caller, Directory
from app.gateway.limits import refusal, states
from app.gateway.limits.match import Match, Matches
from app.gateway.limits.memory import Memory
from app.gateway.limits.need import NOTHING, Need, Spent
from app.gateway.limits.outage import Local
from app.gateway.limits.outbox import Outbox
from app.gateway.limits.recovery import Recovery
from app.gateway.limits.rules import Table
from app.gateway.limits.seeding import Ledger, Seeding
from app.gateway.limits.states import Preview, RuleState
from app.gateway.limits.ticket import LOCAL, Ticket
from app.settings import Settings
from app.store.away import AWAY
from app.store.counters.commands import LOOK, TAKE, UNSEEDED_TOO, Amounts, Row
from app.store.counters.connection import Away, Says
from app.store.counters.counters import Counters
from app.store.counters.scripts import FORGOTTEN, REFUSED, TAKEN, UNSEEDED, WRONG_TIME
from app.telemetry import Telemetry
from providers.errors import LimitReached, Unavailable

log = logging.getLogger(__name__)

# How often one reserve() may be answered with something to be done first: an epoch, a seed, another period.
_MOST_TRIES = 6


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
        self._skew_ms = 0.0
        self._outbox = Outbox(counters)
        self._local = Local(self._now_ms, lambda key: self._recovery.holders(key))
        self._limits: Any = None
        self._matches = Matches(Table(()), counters.scripts, self._lease_ms, self._now_ms)
        self._recovery = Recovery(
            counters,
            self._memory,
            self._local,
            self._outbox,
            telemetry,
            self._lease_ms,
            lambda buckets: self._matches.made_of(buckets),
            lambda: bool(self._limits),
        )

    @property
    def up(self) -> bool:
        """Whether Redis answers."""
        return self._counters.up

    @property
    def on_their_way(self) -> int:
        """How much Redis has yet to confirm."""
        return len(self._outbox) + len(self._recovery)

    def swap(self, directory: Directory) -> None:
        """The rules of a new snapshot. Tickets keep those they were taken by."""
        if directory.limits != self._limits:
            self._limits = directory.limits
            self._matches = Matches(Table(directory.limits), self._counters.scripts, self._lease_ms, self._now_ms)

    async def start(self) -> None:
        """Also without Redis, after a moment."""
        await self._counters.start()
        self._recovery.start()

    async def stop(self, patience_s: float = 2.0) -> None:
        """Waits a moment for what was settled last."""
        for _ in range(int(patience_s * 100)):
            if not self._outbox or not self._counters.up:
                break
            await asyncio.sleep(0.01)
        await self._recovery.stop()
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
        self._recovery.begin(ticket)
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
                if len(reply) > 2 and reply[2] != self._recovery.born:
                    self._recovery.met(reply[2])
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
        if counters.up:  # it answers, and does not do as it is told: what is taken here is told to the next connection
            counters.break_off()
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
        raise refusal.unseen()

    def _count_tried(self, match: Match, reply: list[Any]) -> None:
        for index in match.tried:
            if reply[3 + 2 * index] < 0:
                self._telemetry.limit_would_refuse(match.rule(index).name)

    # --- settling

    def _end(self, ticket: Ticket, spent: Amounts) -> None:
        if ticket.settled:
            return
        ticket.settled = True
        self._recovery.end(ticket)
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

    def _now_ms(self) -> float:
        """By Redis's clock, as far as it is known."""
        return time.time() * 1000 + self._skew_ms
