"""Telling an answer: at the pace and to the end that the model and the request ask for."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from app.local.sandbox.bodies import Control
from app.local.sandbox.errors import Told
from app.local.sandbox.line import Header, Line, sleep_until
from app.local.sandbox.models import Model

STALL_S = 600.0
"""How long a stalled answer is held if the client never leaves."""


@dataclass(frozen=True, slots=True)
class Telling:
    """`started_s` is when the request came, on the event loop's clock: making the answer counts towards how long it takes."""

    model: Model
    control: Control
    started_s: float

    def due_s(self, frame: int, frames: int) -> float:
        each_s = self.control.chunk_delay_ms / 1000 + self.model.lasts_s / max(1, frames)
        return self.started_s + self.control.delay_ms / 1000 + each_s * (frame + 1)

    def dies_after(self, frames: int) -> int | None:
        """The number of frames after which the answer ends too early, or None."""
        if self.control.die_after is not None:
            return self.control.die_after if self.control.die_after < frames else None
        return frames // 2 if self.model.dies else None

    async def stream(self, line: Line, frames: Sequence[dict[str, Any]], headers: Sequence[Header]) -> Literal["finished", "died"]:
        last = self.dies_after(len(frames))
        await sleep_until(self.started_s + self.control.delay_ms / 1000)
        await line.start(200, "events", [(b"cache-control", b"no-cache"), *headers])
        for number, frame in enumerate(frames):
            if number == last:
                return await self._die(line)
            await sleep_until(self.due_s(number, len(frames)))
            await line.write_event(frame)
        await line.write(b"data: [DONE]\n\n" if self.control.done else b"", is_last=True)
        return "finished"

    async def whole(self, line: Line, body: dict[str, Any], frames: int, headers: Sequence[Header]) -> Literal["finished", "died"]:
        """Takes as long as the stream of it would; an answer that dies is cut in the middle of its body."""
        raw = msgspec.json.encode(body)
        if self.dies_after(frames) is None:
            await sleep_until(self.due_s(frames - 1, frames))
            await line.reply(200, raw, headers)
            return "finished"
        if self.control.die_how == "error":
            failure = Told(500, "the request says die_how = error")
            await line.reply(failure.status, failure.envelope(), headers)
            return "died"
        await sleep_until(self.started_s + self.control.delay_ms / 1000 + self.model.lasts_s / 2)
        await line.start(200, "json", [*headers, (b"content-length", str(len(raw)).encode())])
        await line.write(raw[: len(raw) // 2])
        return await self._die(line)

    async def _die(self, line: Line) -> Literal["died"]:
        match self.control.die_how:
            case "cut":
                line.cut()
            case "error":
                await line.write_event(Told(500, "the request says die_how = error").envelope())
                await line.write(b"", is_last=True)
            case "stall":
                await asyncio.sleep(STALL_S)
                line.cut()
        return "died"
