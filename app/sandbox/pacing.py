"""Sends a response at the pace, and cut at the point, that the model and the request demand."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from app.sandbox.models import Model
from app.sandbox.protocol.connection import ClientConnection, Header, sleep_until
from app.sandbox.protocol.errors import RequestedFailure
from app.sandbox.protocol.request_schema import Control

FRAMES_PER_TURN = 50
STALL_S = 600.0
"""How long a stalled response stays open if the client does not disconnect."""


@dataclass(frozen=True, slots=True)
class PacedResponse:
    """The times at which the frames of a response are due."""

    model: Model
    control: Control
    started_s: float  # when the request arrived, on the event loop's clock; generating the response counts towards its duration

    def frame_due_s(self, frame: int, frames: int) -> float:
        """Returns the time to send a frame at, on the event loop's clock. The first frame is number 0."""
        interval_s = self.control.chunk_delay_ms / 1000 + self.model.duration_s / max(1, frames)
        return self.started_s + self.control.delay_ms / 1000 + interval_s * (frame + 1)

    def cut_after(self, frames: int) -> int | None:
        """The number of frames after which the response breaks off; None: it does not."""
        if self.control.die_after is not None:
            return self.control.die_after if self.control.die_after < frames else None
        return frames // 2 if self.model.dies else None

    async def send_stream(
        self, connection: ClientConnection, frames: Iterator[dict[str, Any]], frame_count: int, headers: Sequence[Header]
    ) -> Literal["finished", "died"]:
        last = self.cut_after(frame_count)
        await sleep_until(self.started_s + self.control.delay_ms / 1000)
        await connection.start_response(200, "events", [(b"cache-control", b"no-cache"), *headers])
        for number, frame in enumerate(frames):
            if number == last:
                return await self._end_early(connection)
            await sleep_until(self.frame_due_s(number, frame_count))
            if number % FRAMES_PER_TURN == FRAMES_PER_TURN - 1:
                # Neither a time that has passed nor a client that reads fast makes way for other requests.
                await asyncio.sleep(0)
            await connection.write_event(frame)
        await connection.write(b"data: [DONE]\n\n" if self.control.done else b"", is_last=True)
        return "finished"

    async def send_response(
        self, connection: ClientConnection, body: dict[str, Any], frames: int, headers: Sequence[Header]
    ) -> Literal["finished", "died"]:
        """Takes as long as a stream of `frames` frames; a response that breaks off is cut in the middle of its body."""
        raw = msgspec.json.encode(body)
        if self.cut_after(frames) is None:
            await sleep_until(self.frame_due_s(frames - 1, frames))
            await connection.send_json(200, raw, headers)
            return "finished"
        if self.control.die_how == "error":
            failure = RequestedFailure(500, "the request says die_how = error")
            await connection.send_json(failure.status, failure.envelope(), headers)
            return "died"
        await sleep_until(self.started_s + self.control.delay_ms / 1000 + self.model.duration_s / 2)
        await connection.start_response(200, "json", [*headers, (b"content-length", str(len(raw)).encode())])
        await connection.write(raw[: len(raw) // 2])
        return await self._end_early(connection)

    async def _end_early(self, connection: ClientConnection) -> Literal["died"]:
        match self.control.die_how:
            case "cut":
                connection.cut()
            case "error":
                await connection.write_event(RequestedFailure(500, "the request says die_how = error").envelope())
                await connection.write(b"", is_last=True)
            case "stall":
                await asyncio.sleep(STALL_S)
                connection.cut()
        return "died"
