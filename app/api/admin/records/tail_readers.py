"""Tails: whoever follows new inferences. One reader of Postgres in each process serves them all, and none of them can hold it up."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Hashable
from contextlib import asynccontextmanager
from typing import Any, Literal

from msgspec import Struct

from app.store.postgres.conditions import OpenTransaction
from app.store.postgres.db_errors import DB_UNAVAILABLE_ERRORS
from app.store.records.inference_filter import InferenceFilter, matches
from app.store.records.inference_tail import After, current_position, read_stored
from providers.canonical.errors import Unavailable

log = logging.getLogger(__name__)

MAX_TAILS = 20
MAX_TAILS_OF_ONE = 5  # follower: nobody takes all places from others
_POLL_S = 1.0
_PAGE_ROWS = 200  # each tail looks at all of them, in one turn of the event loop
MAX_POLL_ROWS = 10_000  # of one poll, and of what a tail that goes on has missed
MAX_WAITING_ROWS = 1_000  # of one tail

EndReason = Literal["too_slow", "shutting_down"]


class Batch(Struct, frozen=True):
    """A batch of new inferences. `position` is where whoever has these rows can go on.

    `missed` means that there was more than is followed.
    """

    rows: list[dict[str, Any]]
    position: str
    missed: bool = False


class Tail:
    """The new inferences for one follower. `ended` is the reason why it gets no more, or None."""

    def __init__(self, follower: Hashable, filters: InferenceFilter, position: str) -> None:
        self.follower = follower
        self.filters = filters
        self.position = position
        self.ended: EndReason | None = None
        self._batches: list[Batch] = []
        self._waiting_rows = 0
        self._rows: list[dict[str, Any]] = []
        self._news = asyncio.Event()

    def add(self, rows: list[dict[str, Any]]) -> None:
        """A page of a poll; close_poll() makes a batch of what matches."""
        found = [row for row in rows if matches(self.filters, row)]
        self._waiting_rows += len(found)
        if self._waiting_rows > MAX_WAITING_ROWS:
            self.end("too_slow")
        else:
            self._rows += found

    def close_poll(self, position: str, *, missed: bool) -> None:
        if self.ended is None:
            self.position = position
            if self._rows or missed:
                self._batches.append(Batch(self._rows, position, missed))
                self._rows = []
                self._news.set()

    def end(self, reason: EndReason) -> None:
        self.ended = reason
        self._batches.clear()
        self._rows.clear()
        self._news.set()

    async def next(self, timeout_s: float) -> Batch | None:
        """Returns the next batch, or None if there is nothing new in time or the tail has ended."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._news.wait()
        except TimeoutError:
            return None
        if not self._batches:
            return None
        batch = self._batches.pop(0)
        self._waiting_rows -= len(batch.rows)
        if not self._batches and self.ended is None:
            self._news.clear()
        return batch


class InferenceTails:
    """The tails of this process. `is_draining` says whether the process is shutting down."""

    def __init__(self, is_draining: Callable[[], bool]) -> None:
        self._is_draining = is_draining
        self._tails: set[Tail] = set()
        self._between_polls = asyncio.Lock()
        self._position = ""
        self._poll_until: str | None = None  # of a poll that Postgres interrupted
        self._poll_after: After | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_reading(self) -> bool:
        """Whether Postgres is being read. It is until a moment after the last tail has ended."""
        return self._task is not None and not self._task.done()

    def check_room(self, follower: Hashable) -> None:
        """Raises Unavailable if there is no room for another tail. `follower` is a key, user or service account."""
        if sum(tail.follower == follower for tail in self._tails) >= MAX_TAILS_OF_ONE:
            raise Unavailable(
                f"This process already serves {MAX_TAILS_OF_ONE} of your streams of new inferences. End one of them first.",
                retry_after_s=10,
            )
        if len(self._tails) >= MAX_TAILS:
            raise Unavailable(
                f"This process already serves {MAX_TAILS} that follow new inferences. Try again when one of them has ended.",
                retry_after_s=10,
            )

    @asynccontextmanager
    async def follow(self, follower: Hashable, filters: InferenceFilter, open_transaction: OpenTransaction) -> AsyncGenerator[Tail]:
        """A tail from now on. Raises one of DB_UNAVAILABLE_ERRORS, and Unavailable."""
        async with self._between_polls:
            self.check_room(follower)
            if not self._tails:
                async with open_transaction() as connection:
                    self._position = await current_position(connection)
                self._poll_until = self._poll_after = None
            tail = Tail(follower, filters, self._position)
            self._tails.add(tail)
            if not self.is_reading:
                self._task = asyncio.create_task(self._poll(open_transaction))
        try:
            yield tail
        finally:
            self._tails.discard(tail)

    async def _poll(self, open_transaction: OpenTransaction) -> None:
        while self._tails:
            await asyncio.sleep(_POLL_S)
            if self._is_draining():
                for tail in list(self._tails):
                    tail.end("shutting_down")
                return
            try:
                async with self._between_polls:
                    await self._read(open_transaction)
            except (Unavailable, *DB_UNAVAILABLE_ERRORS) as fault:  # it goes on where it was
                log.warning("new inferences could not be read: %s", type(fault).__name__)
            except Exception:
                log.exception("new inferences could not be read")

    async def _read(self, open_transaction: OpenTransaction) -> None:
        async with open_transaction() as connection:
            if self._poll_until is None:
                self._poll_until = await current_position(connection)
            read = 0
            while True:
                rows, self._poll_after = await read_stored(connection, self._position, self._poll_until, self._poll_after, _PAGE_ROWS)
                for tail in self._following():
                    tail.add(rows)
                read += len(rows)
                if self._poll_after is None or read >= MAX_POLL_ROWS:
                    break
        missed, self._poll_after = self._poll_after is not None, None
        self._position, self._poll_until = self._poll_until, None
        for tail in self._following():
            tail.close_poll(self._position, missed=missed)

    def _following(self) -> list[Tail]:
        return [tail for tail in self._tails if tail.ended is None]


async def read_missed(open_transaction: OpenTransaction, filters: InferenceFilter, since: str, until: str) -> AsyncGenerator[Batch]:
    """Yields what was stored between two positions, in pages. The last page may say that there was more."""
    after: After | None = None
    read = 0
    while True:
        async with open_transaction() as connection:
            rows, after = await read_stored(connection, since, until, after, _PAGE_ROWS)
        read += len(rows)
        is_last = after is None or read >= MAX_POLL_ROWS
        # Only behind the last page is everything read that was stored until then.
        yield Batch([row for row in rows if matches(filters, row)], until if is_last else since, is_last and after is not None)
        if is_last:
            return
