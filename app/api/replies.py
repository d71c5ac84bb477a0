"""Answers as ASGI messages, with the headers that every answer carries."""

import math

from litestar.types import Send

from app.gateway.underway import Underway
from providers.errors import NarthexError, WrongMethod

Header = tuple[bytes, bytes]
_CONTROLS = bytes([*range(0x20), 0x7F])


def error_headers(error: NarthexError) -> list[Header]:
    headers: list[Header] = []
    if error.retry_after_s is not None:
        headers.append((b"retry-after", b"%d" % math.ceil(error.retry_after_s)))
    if isinstance(error, WrongMethod):
        headers.append((b"allow", error.allowed.encode("latin-1")))
    return headers


def request_headers(id: str) -> list[Header]:
    """SDKs show x-request-id (OpenAI's) and request-id (Anthropic's) to their users."""
    told = id.encode("ascii")
    return [(b"x-request-id", told), (b"request-id", told)]


class Outgoing:
    """The way to the caller of one request. See app.gateway.serve.Out.

    `begun`: a status was sent, so there is no other. `ended`: the last byte was sent, or is being sent.
    """

    def __init__(self, send: Send, underway: Underway) -> None:
        self._send = send
        self._underway = underway
        self.begun = False
        self.ended = False

    async def whole(self, body: bytes) -> None:
        await self._start(200, [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), *self._served()])
        await self._body(body, more=False)

    async def begin(self, first: bytes) -> None:
        # x-accel-buffering: nginx in front of us must not collect frames.
        stream = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]
        await self._start(200, [*stream, *self._served()])
        await self._body(first, more=True)

    async def more(self, data: bytes) -> None:
        await self._body(data, more=True)

    async def end(self, last: bytes) -> None:
        await self._body(last, more=False)

    async def refuse(self, status: int, body: bytes, headers: list[Header]) -> None:
        about = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await self._start(status, [*about, *headers, *self._ours()])
        await self._body(body, more=False)

    def _ours(self) -> list[Header]:
        underway = self._underway
        headers = [*request_headers(underway.id), (b"x-narthex-inference-id", underway.id.encode("ascii"))]
        if underway.episode_id is not None:
            headers.append((b"x-narthex-episode-id", underway.episode_id.encode("ascii")))
        if underway.dropped:
            headers.append((b"x-narthex-dropped", ", ".join(underway.dropped).encode("ascii", "backslashreplace")))
        return headers

    def _served(self) -> list[Header]:
        headers = self._ours()
        served = self._underway.served
        if served is not None:
            name = f"{served.provider}/{served.model}".encode("ascii", "backslashreplace").translate(None, _CONTROLS)
            headers.append((b"x-narthex-served", name))
        return headers

    async def _start(self, status: int, headers: list[Header]) -> None:
        self.begun = True
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def _body(self, data: bytes, *, more: bool) -> None:
        self.ended = not more
        await self._send({"type": "http.response.body", "body": data, "more_body": more})
