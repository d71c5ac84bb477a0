"""Claims: the right to answer a request with an Idempotency-Key, renewed while it is under way, settled by what its record says."""

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from app.domain import Exchange
from app.record.entry import Entry
from app.record.status import read_status
from app.settings import Settings
from app.store.answers import Answer, Answers, AnswersAway, Claiming, Found
from providers.errors import AskError, Conflict

log = logging.getLogger(__name__)

_GOODBYE_S = 2.0

T = TypeVar("T")


class Claims:
    """Those of one worker that are under way. Renewed from start() to stop()."""

    def __init__(self, settings: Settings, answers: Answers, lease_s: float) -> None:
        self.answers = answers
        self.max_bytes = settings.idempotency_max_bytes
        self.spool = f"{os.uname().nodename}:{settings.home.resolve()}"
        self._home = settings.home
        self._lease_s = lease_s
        self._live: set[Claim] = set()
        self._renewing = asyncio.Lock()
        self._is_away = self._is_stopping = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep_alive())

    async def stop(self) -> None:
        """Says to Redis what is left to be said, within bounds; a claim that stays is one of a dead owner."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=_GOODBYE_S)
            for task in late:
                task.cancel()
        if self._task is not None:
            self._is_stopping = True  # redis-py 8.1 may swallow a cancellation
            self._task.cancel()
            await asyncio.wait([self._task])
        await self.answers.close()

    def own(self, claim: "Claim", asked_at: float) -> None:
        """It is ours since it was asked for (by time.monotonic), and from now on renewed."""
        claim.sure_until = asked_at + self._lease_s
        self._live.add(claim)

    async def renew(self, claim: "Claim") -> bool:
        """Whether it is ours still. Raises AnswersAway."""
        return await self.to_its_end(self._renew(claim))

    async def _renew(self, claim: "Claim") -> bool:
        async with self._renewing:  # a renewal that is on its way may say of it what is no longer so
            began = time.monotonic()
            (is_ours,) = await self.answers.renew([claim.claiming])
        if is_ours:
            claim.sure_until = began + self._lease_s
        return is_ours

    async def let_go(self, claim: "Claim") -> None:
        """No longer renewed, also not by a renewal that is on its way: it would bring back what is deleted."""
        self._live.discard(claim)
        async with self._renewing:
            pass

    async def to_its_end(self, work: Coroutine[Any, Any, T]) -> T:
        """What is asked of Redis on the road. A caller who leaves ends the waiting, not the work: redis-py 8.1 may swallow a cancellation,
        and what Redis was about to grant could not be given back.
        """
        return await asyncio.shield(self.later(work))

    def later(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Does it, whatever becomes of whoever wants it done."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _keep_alive(self) -> None:
        """Renews, and tells how far this machine's spool is written, for those who wait for what a dead owner may have recorded."""
        while not self._is_stopping:
            try:
                async with self._renewing:
                    await self._renew_all()
                status = read_status(self._home)
                if status is not None:
                    await self.answers.tell_written(self.spool, max(0.0, time.time() - status.at + status.oldest_s))
                if self._is_away:
                    log.info("Redis answers again")
                self._is_away = False
            except (AnswersAway, OSError) as fault:
                if not self._is_away:
                    log.warning("Redis is away: requests with an Idempotency-Key are refused", extra={"fault": str(fault)})
                self._is_away = True
            except Exception:
                log.exception("claims could not be renewed")
            await asyncio.sleep(min(1.0, self._lease_s / 10))

    async def _renew_all(self) -> None:
        began = time.monotonic()
        due = [claim for claim in self._live if claim.sure_until - began < self._lease_s * 2 / 3]
        if not due:
            return
        for claim, is_ours in zip(due, await self.answers.renew([claim.claiming for claim in due]), strict=True):
            if is_ours:
                claim.sure_until = began + self._lease_s
            else:
                self._live.discard(claim)  # its confirm() finds out


class Claim:
    """The right to answer one request. over() its entry; confirm() before its record is kept; settle() before its last byte, and at last.

    What becomes of it is what the record says: answered, and the answer is stored; anything else, or no record, and the next may have it.
    """

    def __init__(self, claims: Claims, claiming: Claiming) -> None:
        self.claiming = claiming
        self.inference_id = claiming.inference_id
        self.sure_until = 0.0  # by time.monotonic: before that, nobody can have taken it
        self._claims = claims
        self._asking: asyncio.Task[Found] | None = None
        self._overheard: Overheard | None = None
        self._settling: asyncio.Task[None] | None = None

    async def ask(self) -> Found:
        """Claims it, if it can be had. Raises AnswersAway."""
        began = time.monotonic()
        self._asking = self._claims.later(self._claims.answers.claim(self.claiming))
        found = await asyncio.shield(self._asking)
        if found.state in ("claimed", "taken"):
            self._claims.own(self, began)
        return found

    def over(self, entry: Entry) -> "Overheard":
        """The entry of the exchange: this claim hears what it is told from now on."""
        self._overheard = Overheard(entry, self._claims.max_bytes)
        return self._overheard

    async def confirm(self) -> None:
        """Raises Conflict if another has taken the claim, as we were silent for too long: the answer must not count."""
        if time.monotonic() < self.sure_until:
            return
        with contextlib.suppress(AnswersAway):
            if not await self._claims.renew(self):
                raise self.lost()

    async def settle(self) -> None:
        """Stores the answer, or lets the claim go; once, and to its end also if the caller leaves meanwhile. Raises nothing."""
        await asyncio.shield(self.give_up())

    def give_up(self) -> asyncio.Task[None]:
        """As settle(), for who has no time to wait."""
        # A task begins when this turn of the loop is over: what was recorded in it is in the spool by then (providers.turn).
        if self._settling is None:
            self._settling = self._claims.later(self._settle())
        return self._settling

    def lost(self) -> AskError:
        message = "This request was given up and left to its retry: the gateway that answers it had lost touch with its store of claims."
        return coded(Conflict(message), "idempotency_taken_over", self.inference_id)

    async def _settle(self) -> None:
        ended = self._overheard.ended if self._overheard is not None else None
        try:
            if self._asking is not None:
                await asyncio.wait([self._asking])
            await self._claims.let_go(self)
            if self._overheard is None or ended is None or ended.outcome != "answered":
                await self._claims.answers.release(self.claiming, self.inference_id)
            else:
                await self._claims.answers.finish(self.claiming, self._overheard.answer(ended))
        except AnswersAway as fault:
            log.info("a claim is left as if its owner were dead", extra={"inference": self.inference_id, "fault": str(fault)})
        except Exception:
            log.exception("a claim is left as if its owner were dead", extra={"inference": self.inference_id})


class Overheard:
    """An entry of the spool, with an ear: what goes to the caller is held, up to a size, and so is how it ended."""

    def __init__(self, entry: Entry, max_bytes: int) -> None:
        self.closed = entry.closed
        self.ended: Exchange | None = None
        self._entry = entry
        self._room = max_bytes
        self._said: list[bytes] = []

    def reply(self, data: bytes) -> None:
        self._entry.reply(data)
        self._room -= len(data)
        if self._room >= 0:
            self._said.append(data)
        else:
            self._said.clear()

    def close(self, exchange: Exchange) -> None:
        self._entry.close(exchange)
        self.closed = True
        self.ended = self.ended or exchange

    def answer(self, exchange: Exchange) -> Answer | None:
        """None: it was too large."""
        if self._room < 0:
            return None
        return Answer(
            inference_id=exchange.id,
            episode_id=exchange.episode_id,
            streamed=exchange.streamed,
            body=b"".join(self._said),
            served_provider=exchange.served_provider,
            served_model=exchange.served_model,
            dropped=exchange.dropped,
            status=exchange.status,
            guided=exchange.guided,
        )


def coded(error: AskError, code: str, inference_id: str) -> AskError:
    """The error with what a program may go by."""
    error.code = code
    error.details = {"inference_id": inference_id}
    return error
