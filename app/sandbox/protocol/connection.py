"""The connection to one client: ASGI, with two additions: noticing a disconnect at once, and cutting the connection."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from app.sandbox.protocol.errors import RequestTooLarge

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]
Header = tuple[bytes, bytes]

CUT_EXTENSION = "narthex.cut"
"""The ASGI extension with which our server (server.py) lets an app close its connection."""

MAX_BODY_BYTES = 32 * 1024 * 1024


class ClientConnection:
    """One request of a client and its response."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._extensions: Mapping[str, Any] = scope.get("extensions") or {}
        self._receive = receive
        self._send = send
        self.model = ""  # the requested model, for the metrics; empty until it is known
        self.is_complete = False
        self.is_cut = False

    async def read_body(self) -> bytes:
        """Raises ClientDisconnected, RequestTooLarge."""
        parts: list[bytes] = []
        size_bytes = 0
        while True:
            message = await self._receive()
            if message["type"] != "http.request":
                raise ClientDisconnected
            part = message.get("body", b"")
            parts.append(part)
            size_bytes += len(part)
            if size_bytes > MAX_BODY_BYTES:
                raise RequestTooLarge(f"The body has more than {MAX_BODY_BYTES} bytes.")
            if not message.get("more_body", False):
                return b"".join(parts)

    async def wait_for_disconnect(self) -> None:
        """Returns once the client has disconnected, or the response is complete: ASGI has one message for both."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def start_response(self, status: int, kind: Literal["json", "events", "text"], headers: Sequence[Header] = ()) -> None:
        await self._send({"type": "http.response.start", "status": status, "headers": [(b"content-type", CONTENT_TYPES[kind]), *headers]})

    async def write(self, part: bytes, *, is_last: bool = False) -> None:
        # Set before sending: the server may report the end while the last part is being sent.
        self.is_complete = is_last
        await self._send({"type": "http.response.body", "body": part, "more_body": not is_last})

    async def write_event(self, event: object) -> None:
        await self.write(b"data: " + msgspec.json.encode(event) + b"\n\n")

    async def send_json(self, status: int, body: object, headers: Sequence[Header] = ()) -> None:
        """Sends a complete response. `body` is encoded JSON, or what msgspec encodes."""
        raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
        await self.start_response(status, "json", [*headers, (b"content-length", str(len(raw)).encode())])
        await self.write(raw, is_last=True)

    def cut(self) -> None:
        """Closes the connection, after a response, a part of one, or nothing. What was written before still arrives."""
        if CUT_EXTENSION not in self._extensions:
            raise ConnectionAbortedError("This server cannot cut connections, so an exception ends this one.")
        self.is_cut = True
        self._extensions[CUT_EXTENSION]["close"]()


class ClientDisconnected(Exception):
    """The client disconnected before its request was complete."""


CONTENT_TYPES = {
    "json": b"application/json",
    "events": b"text/event-stream; charset=utf-8",
    "text": b"text/plain; version=0.0.4; charset=utf-8",
}


async def sleep_until(deadline_s: float) -> None:
    """Sleeps until a time of the event loop's clock; returns at once, without a context switch, if it has passed."""
    wait_s = deadline_s - asyncio.get_running_loop().time()
    if wait_s > 0:
        await asyncio.sleep(wait_s)
