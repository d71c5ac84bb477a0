"""The access log: one JSON line for each request, where the setting asks for it. It never holds up a request.

Lines wait in memory, of which they take little, and a thread writes them: whoever reads them may be slow. What does not fit is left out
and counted.
"""

import asyncio
import contextlib
import datetime
import os
import queue
import threading
import time
from collections.abc import Callable
from typing import Literal

import msgspec
from litestar.types import ASGIApp, Message, Receive, Scope, Send
from msgspec import Struct

from app.api.server.request_id import request_id_of
from app.domain.callers import Caller
from app.gateway.state.context import RequestContext
from app.gateway.state.stages import Authenticated, Replayed, admitted_of
from app.process.background_tasks import BackgroundTask
from providers.canonical.credential_masking import mask_credentials

_FLUSH_EVERY_S = 0.1
_MAX_WAITING_BYTES = 4 * 1024 * 1024
# What is written at once to a pipe is not mixed with what other processes write there: PIPE_BUF, pipe(7).
_MAX_WRITE_BYTES = 4096
_MAX_CHARS = 200
_CLOSE_TIMEOUT_S = 2.0
_DESCRIPTORS = {"stdout": 1, "stderr": 2}


class AccessLine(Struct, frozen=True, rename={"from_": "from"}):
    """One line of the log. `key` is the public part of the key.

    None means that the value is unknown: no key was accepted, or the request is no inference.
    """

    at: str
    method: str
    path: str
    status: int
    duration_ms: float
    team: str | None
    key: str | None
    model: str | None
    inference: str | None
    request_id: str
    trace_id: str | None
    level: str = "info"
    from_: str = "access"
    message: str = "request"


class AccessLog:
    """Lines are added by the event loop, and written by a thread of its own. `count_dropped` is called with how many were left out."""

    def __init__(self, to: Literal["stdout", "stderr"] | int, count_dropped: Callable[[int], None]) -> None:
        self.task = BackgroundTask("access log", self._keep_flushing)
        self._descriptor = to if isinstance(to, int) else _DESCRIPTORS[to]
        self._count_dropped = count_dropped
        self._lines: list[bytes] = []
        self._waiting_bytes = 0
        self._dropped = 0
        self._encode = msgspec.json.Encoder().encode
        self._batches: queue.SimpleQueue[list[bytes] | None] = queue.SimpleQueue()
        self._written_bytes = 0  # by the thread alone
        self._counted_bytes = 0
        self._thread = threading.Thread(target=self._write, name="access log", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self.task.start()

    async def stop(self) -> None:
        """Writes what there is, unless that takes too long."""
        await self.task.stop()
        self.flush()
        self._batches.put(None)
        await asyncio.to_thread(self._thread.join, _CLOSE_TIMEOUT_S)

    def add(self, line: AccessLine) -> None:
        encoded = self._encode(line) + b"\n"
        if self._waiting_bytes + len(encoded) > _MAX_WAITING_BYTES or len(encoded) > _MAX_WRITE_BYTES:
            self._dropped += 1
            return
        self._lines.append(encoded)
        self._waiting_bytes += len(encoded)

    def add_inference(self, context: RequestContext, method: str, path: str) -> None:
        """The line of an inference that has ended."""
        stage, admitted = context.stage, admitted_of(context.stage)
        model = None if admitted is None else admitted.request.model
        match stage:
            case Replayed(authenticated=authenticated) | (Authenticated() as authenticated):
                caller = authenticated.caller
            case _:
                caller = None if admitted is None else admitted.caller
        self.add(
            _line(
                context.received_us,
                method,
                path,
                context.status,
                context.progress.elapsed_us() / 1000,
                caller,
                model and model[:_MAX_CHARS],
                context.id,
                context.request_id,
                None if context.trace is None else context.trace.trace_id,
            )
        )

    def flush(self) -> None:
        """Hands over what was added to the thread."""
        written = self._written_bytes
        self._waiting_bytes -= written - self._counted_bytes
        self._counted_bytes = written
        if self._lines:
            lines, self._lines = self._lines, []
            self._batches.put(_joined(lines))
        if self._dropped:
            self._count_dropped(self._dropped)
            self._dropped = 0

    async def _keep_flushing(self) -> None:
        while True:
            await asyncio.sleep(_FLUSH_EVERY_S)
            self.flush()

    def _write(self) -> None:
        while (blocks := self._batches.get()) is not None:
            for block in blocks:
                with contextlib.suppress(OSError):  # nobody reads any more
                    left = block
                    while left:
                        left = left[os.write(self._descriptor, left) :]
                self._written_bytes += len(block)


def _joined(lines: list[bytes]) -> list[bytes]:
    """The lines in blocks that are each written at once."""
    blocks: list[bytes] = []
    block: list[bytes] = []
    size = 0
    for line in lines:
        if size + len(line) > _MAX_WRITE_BYTES:
            blocks.append(b"".join(block))
            block, size = [], 0
        block.append(line)
        size += len(line)
    return [*blocks, b"".join(block)]


def _line(
    at_us: int,
    method: str,
    path: str,
    status: int,
    duration_ms: float,
    caller: Caller | None,
    model: str | None,
    inference_id: str | None,
    request_id: str,
    trace_id: str | None,
) -> AccessLine:
    at = datetime.datetime.fromtimestamp(at_us / 1e6, datetime.UTC).isoformat(timespec="milliseconds")
    return AccessLine(
        at.replace("+00:00", "Z"),
        method[:_MAX_CHARS],
        path[:_MAX_CHARS],
        status,
        round(duration_ms, 3),
        None if caller is None else caller.team[:_MAX_CHARS],
        None if caller is None else caller.prefix,
        model,
        inference_id,
        request_id,
        trace_id,
    )


class AccessLogApp:
    """ASGI: the lines of the routes other than inferences."""

    def __init__(self, app: ASGIApp, access_log: AccessLog) -> None:
        self._app = app
        self._access_log = access_log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started_s, began_s, status = time.time(), time.perf_counter(), 499

        async def send_noting_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        path = mask_credentials(scope["path"][: 2 * _MAX_CHARS])
        try:
            await self._app(scope, receive, send_noting_status)
        finally:
            caller, request_id = scope["state"].get("caller"), request_id_of(scope)
            duration_ms = (time.perf_counter() - began_s) * 1000  # The wall clock may have been set meanwhile.
            self._access_log.add(
                _line(int(started_s * 1e6), scope["method"], path, status, duration_ms, caller, None, None, request_id, None)
            )
