"""The byte edit of a stream of /v1/messages: id and model are ours, all else is the engine's own bytes."""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.anthropic_errors import read_told_error
from providers.chat import Usage
from providers.dialect import Stamp
from providers.dialects.anthropic_messages.answers import complete
from providers.dialects.anthropic_messages.usage import Counts, as_usage, later, read_counts, read_reason
from providers.errors import CutShort, Garbled, UpstreamError
from providers.wire import NULL, UNREADABLE, Body, Frames, mended


class _Ended(Struct):
    stop_reason: str | None = None


class _Head(Struct):
    type: str = ""
    delta: Raw = NULL
    message: dict[str, Raw] | None = None
    usage: Raw = NULL


_head = msgspec.json.Decoder(_Head)
_ended = msgspec.json.Decoder(_Ended)

_STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'


class EventEditor:
    """See providers.dialect.Editor. `finish_reason` is in OpenAI's words."""

    def __init__(self, stamp: Stamp) -> None:
        self.usage: Usage | None = None
        self.finish_reason: str | None = None
        self.failure: UpstreamError | None = None
        self.done = False
        self._stamp = stamp
        self._frames = Frames()
        self._begun = False
        self._held: list[bytes] = []
        self._counts: Counts | None = None
        self._pieces = 0
        self._pieces_bytes = 0
        self._shortest_bytes = 1 << 62

    @property
    def written_tokens(self) -> int:
        """One a piece, or, as not every engine sends single tokens, a quarter of the bytes by which pieces exceed the shortest of them."""
        return max(self._pieces, (self._pieces_bytes - self._pieces * self._shortest_bytes) // 4)

    def feed(self, block: bytes) -> bytes:
        out: list[bytes] = []
        try:
            for data in self._frames.feed(block):
                if self.done or self.failure is not None:
                    break
                out.append(self._edit(data))
        except UpstreamError as failure:
            self.failure = failure
        return b"".join(out)

    def end(self) -> bytes:
        """message_stop, which some engines leave out, is what the official SDKs wait for."""
        if self.failure is not None:
            raise self.failure
        last = b"" if self.done else self._last()
        if self.finish_reason is None:
            raise CutShort("The engine ended its answer midway: no stop reason came.")
        return last + b"".join(self._held) + _STOP

    def _last(self) -> bytes:
        """An event without the blank line that ends it. Half an event is none, and must not cost the caller an answer that is whole."""
        try:
            return b"".join([self._edit(data) for data in self._frames.end()])
        except Garbled:
            return b""

    def _edit(self, data: bytes) -> bytes:
        try:
            told = _head.decode(data)
        except UNREADABLE:
            if data.strip() == b"[DONE]":
                self.done = True
                return b""
            data = mended(data)
            told = _decoded(data)
        kind = told.type
        if kind == "content_block_delta":
            self._pieces += 1
            self._pieces_bytes += len(data)
            if len(data) < self._shortest_bytes:
                self._shortest_bytes = len(data)
            return self._on(b"event: content_block_delta\ndata: " + data + b"\n\n")
        match kind:
            case "message_start":
                return self._start(told.message or {})
            case "message_delta":
                return self._on(self._end(told, data))
            case "message_stop":
                self.done = True
                return b""
            case "error" | "":
                raise read_told_error(Body.read_reply(data)) or Garbled("The engine's event has no type.")
            case _:
                return self._on(_frame(kind, data))

    def _on(self, event: bytes) -> bytes:
        """At once, but not once the end was told: that waits."""
        if self.finish_reason is None:
            return event
        self._held.append(event)
        return b""

    def _start(self, message: dict[str, Any]) -> bytes:
        """Some vendors tell it twice, and clients must not begin anew."""
        self._count(message.get("usage"))
        if self._begun:
            return b""
        self._begun = True
        complete(message, self._stamp)
        return _frame("message_start", msgspec.json.encode({"type": "message_start", "message": message}))

    def _end(self, told: _Head, data: bytes) -> bytes:
        self._count(told.usage)
        try:
            reason = None if told.delta == NULL else _ended.decode(told.delta).stop_reason
        except UNREADABLE as fault:
            raise Garbled(f"The engine's event is not one of a stream of messages: {fault}.") from None
        if reason is not None and self.finish_reason is None:
            self.finish_reason = read_reason(reason)[0]
        if told.usage == NULL or told.delta == NULL:
            # The official SDKs cannot do without either.
            body = Body.read_reply(data)
            output = self._counts.output_tokens if self._counts is not None else None
            if told.delta == NULL:
                body["delta"] = {"stop_reason": None, "stop_sequence": None}
            if told.usage == NULL:
                body["usage"] = {"output_tokens": output or 0}
            data = body.write()
        return _frame("message_delta", data)

    def _count(self, usage: Raw | None) -> None:
        self._counts = later(self._counts, read_counts(usage))
        self.usage = as_usage(self._counts)


def _frame(kind: str, data: bytes) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), data)


def _decoded(data: bytes) -> _Head:
    try:
        return _head.decode(data)
    except UNREADABLE as fault:
        raise Garbled(f"The engine's event is not one of a stream of messages: {fault}.") from None
