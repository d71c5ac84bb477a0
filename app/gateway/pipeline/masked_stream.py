"""MaskedStream: records the frames of a stream whose content is masked, while its caller gets them."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, Protocol, TypeVar

from app.gateway.large_body.body_size import LARGE_BYTES, is_slow_to_record
from app.recording.content.masking import MaskRules
from app.recording.content.stream_masking import StreamMasker
from app.recording.spool.spool_record import LargeWork
from providers.canonical.errors import WorkTooLarge

P = ParamSpec("P")
T = TypeVar("T")


class ResponseRecord(Protocol):
    """The part of app.gateway.state.stages.ExchangeRecord that gets a response."""

    def append_response(self, data: bytes) -> None: ...

    async def append_large_response(self, data: bytes, large_work: LargeWork) -> None: ...


class MaskedStream:
    """add() each block of frames, send it, and make_room(); record_all() before the last one is sent, stop() in any case.

    Small blocks are recorded at once. A large one may hold the whole answer once more, so it is masked in a process, and what comes
    meanwhile is recorded behind it: the caller waits for neither, unless more than LARGE_BYTES wait.
    """

    __slots__ = ("_large_work", "_record", "_running", "_waiting", "_waiting_bytes")

    def __init__(self, record: ResponseRecord, large_work: LargeWork) -> None:
        self._record = record
        self._large_work = large_work
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._running: asyncio.Task[None] | None = None

    def add(self, frames: bytes) -> None:
        is_running = self._running is not None and not self._running.done()
        if not is_running and self._running is not None:
            self._running.result()  # raises what went wrong
        if not is_running and not is_slow_to_record(frames, is_masked=True):
            self._record.append_response(frames)
            return
        self._waiting.append(frames)
        self._waiting_bytes += len(frames)
        if not is_running:
            self._running = asyncio.create_task(self._record_waiting())

    async def make_room(self) -> None:
        """Waits if too much waits to be masked, and with it the engine."""
        if self._waiting_bytes > LARGE_BYTES and self._running is not None:
            await self._running

    async def record_all(self) -> None:
        if self._running is not None:
            await self._running

    async def stop(self) -> None:
        """Ends the work of a stream that has ended midway: what is not masked by now is recorded as withheld."""
        if self._running is not None and not self._running.done():
            self._running.cancel()
            await asyncio.wait([self._running])
        if self._running is not None and not self._running.cancelled():
            self._running.exception()  # what went wrong, if anything, has been raised, or the stream ended otherwise before
        if self._waiting:
            await self._record_part(self._take(), _EndedWork())

    async def _record_waiting(self) -> None:
        while self._waiting:
            await self._record_part(self._take(), self._large_work)

    async def _record_part(self, frames: bytes, large_work: LargeWork) -> None:
        if is_slow_to_record(frames, is_masked=True):
            await self._record.append_large_response(frames, large_work)
        else:
            self._record.append_response(frames)

    def _take(self) -> bytes:
        frames = b"".join(self._waiting)
        self._waiting.clear()
        self._waiting_bytes = 0
        return frames


class _EndedWork:
    """Large work that nobody waits for any more."""

    async def mask(self, body: bytes, rules: MaskRules) -> bytes:
        raise WorkTooLarge("The stream has ended.")

    async def mask_stream(self, masker: StreamMasker, frames: bytes) -> tuple[StreamMasker, bytes]:
        raise WorkTooLarge("The stream has ended.")

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        raise WorkTooLarge("The stream has ended.")

    async def wait_for_loop_turn(self) -> None:
        return
