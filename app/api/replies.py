"""Answers to a call, with the headers that every answer carries."""

import math

from app.api.call import Call, Header
from app.api.rates import as_anthropic
from app.gateway.underway import Underway
from app.store.answers import Answer
from providers.errors import Exhausted, LimitReached, NarthexError, WrongMethod

_CONTROLS = bytes([*range(0x20), 0x7F])
_JSON = b"content-type: application/json\r\n"
# x-accel-buffering: nginx in front of us must not collect frames.
_STREAM = b"content-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\nx-accel-buffering: no\r\n"


def error_headers(error: NarthexError, *, anthropic: bool = False) -> list[Header]:
    headers: list[Header] = []
    if error.retry_after_s is not None:
        headers.append((b"retry-after", b"%d" % math.ceil(error.retry_after_s)))
    if isinstance(error, Exhausted):
        # What is used up is so in a second too. The official SDKs obey it: _base_client.py of openai 3.52 and anthropic 2.11, read 2026-11.
        headers.append((b"x-should-retry", b"false"))
    if isinstance(error, WrongMethod):
        headers.append((b"allow", error.allowed.encode("latin-1")))
    if isinstance(error, LimitReached):
        headers += as_anthropic(error.headers) if anthropic else error.headers
    return headers


def request_headers(id: str) -> list[Header]:
    """SDKs show x-request-id (OpenAI's) and request-id (Anthropic's) to their users."""
    told = id.encode("ascii")
    return [(b"x-request-id", told), (b"request-id", told)]


class Outgoing:
    """The way to the caller of one request. See app.gateway.serve.Out.

    `begun`: a status was sent, so there is no other.
    """

    __slots__ = ("_anthropic", "_call", "_underway", "begun", "more")

    def __init__(self, call: Call, underway: Underway) -> None:
        self._call = call
        self._underway = underway
        self._anthropic = underway.route.startswith("anthropic_")
        self.begun = False
        self.more = call.more

    async def whole(self, body: bytes) -> None:
        self.begun = True
        await self._call.whole(200, _JSON + self._served(), body)

    async def begin(self, first: bytes) -> None:
        self.begun = True
        await self._call.begin(200, _STREAM + self._served(), first)

    async def replay(self, answer: Answer) -> None:
        """What was answered before, to whoever the underway stands for by now."""
        self.begun = True
        about = _STREAM if answer.streamed else _JSON
        await self._call.whole(answer.status, about + b"x-narthex-replayed: true\r\n" + self._served(), answer.body)

    async def end(self, last: bytes) -> None:
        await self._call.end(last)

    async def refuse(self, error: NarthexError, body: bytes) -> None:
        self.begun = True
        said = b"".join([b"%b: %b\r\n" % header for header in error_headers(error, anthropic=self._anthropic)])
        await self._call.whole(error.status, _JSON + said + self._ours(), body)

    def _ours(self) -> bytes:
        underway = self._underway
        id = underway.id.encode("ascii")
        fields = b"x-request-id: %b\r\nrequest-id: %b\r\nx-narthex-inference-id: %b\r\n" % (id, id, id)
        if underway.episode_id is not None:
            fields += b"x-narthex-episode-id: %b\r\n" % underway.episode_id.encode("ascii")
        if underway.dropped:
            fields += b"x-narthex-dropped: %b\r\n" % _told(", ".join(underway.dropped))
        if underway.ticket is not None:
            left = underway.ticket.headers
            fields += b"".join([b"%b: %b\r\n" % header for header in (as_anthropic(left) if self._anthropic else left)])
        return fields

    def _served(self) -> bytes:
        served = self._underway.served
        if served is None:
            return self._ours()
        guided = self._underway.guided
        held = b"" if guided is None else b"x-narthex-guided: %b\r\n" % guided.encode("ascii")
        return b"%b%bx-narthex-served: %b\r\n" % (self._ours(), held, _told(f"{served.provider}/{served.model}"))


def _told(words: str) -> bytes:
    """A header's value, whoever chose the words."""
    return words.encode("ascii", "backslashreplace").translate(None, _CONTROLS)
