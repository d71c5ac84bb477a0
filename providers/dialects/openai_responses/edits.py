"""The byte edit: an engine's Response made the caller's. Our keys are replaced, everything else is the engine's own bytes.

Which keys: those of the Response that name us or the ask (objects.py), wherever an event holds one, and `sequence_number` where an engine
numbers no events. What it leaves out of a stream that a client cannot do without is said for it (mending.py).
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from providers.chat import Usage
from providers.dialect import Edited, Stamp
from providers.dialects.openai_responses.answers import Whole, finish_reason
from providers.dialects.openai_responses.failures import failure_in
from providers.dialects.openai_responses.items import Item
from providers.dialects.openai_responses.mending import Mending, Told
from providers.dialects.openai_responses.objects import response_head, stamped
from providers.dialects.openai_responses.reader import told_failure
from providers.dialects.openai_responses.usage import read_usage
from providers.errors import CutShort, Garbled, UpstreamError
from providers.wire import NULL, UNREADABLE, Body, Frames, mended


class _Kind(Struct):
    type: str = ""


class _Bare(Struct):
    """An event of a kind that has its own ideas of what its keys hold."""

    type: str = ""
    sequence_number: int | None = None


_wholes = msgspec.json.Decoder(Whole)
_kinds = msgspec.json.Decoder(list[_Kind])
_events = msgspec.json.Decoder(Told)
_bare = msgspec.json.Decoder(_Bare)

_LAST = frozenset({"response.completed", "response.incomplete"})
_FAILED = frozenset({"response.failed", "response.cancelled", "error"})
_CALLS = ("response.function_call_arguments.", "response.custom_tool_call_input.")


def edit(raw: bytes, stamp: Stamp) -> Edited:
    """A whole answer. Raises Garbled if it is none, or the error that an engine told with status 200."""
    body = Body.read_reply(raw)
    error = failure_in(body)
    if error is not None:
        raise error
    if not body.said("output"):
        raise Garbled("The engine's answer has no output.")
    usage, reason = _ending(body)
    if not body.said("status"):
        body["status"] = "completed" if reason in ("stop", "tool_calls") else "incomplete"
    return Edited(msgspec.json.encode(stamped(body, stamp)), usage, reason)


def _ending(body: Body) -> tuple[Usage | None, str]:
    raw = body.write()
    try:
        told = _wholes.decode(raw)
        kinds = [Item(type=each.type) for each in _kinds.decode(body["output"])] if body.said("output") else []
    except UNREADABLE as fault:
        raise Garbled(f"The engine's answer is not a Response: {fault}.") from None
    return None if told.usage == NULL else read_usage(told.usage, told.service_tier), finish_reason(told, kinds)


class StreamEditor:
    """See providers.dialect.Editor. The event that ends the answer is withheld; some engines send [DONE] after it, which is not sent on."""

    def __init__(self, stamp: Stamp) -> None:
        self.usage: Usage | None = None
        self.finish_reason: str | None = None
        self.failure: UpstreamError | None = None
        self.done = False
        self._stamp = stamp
        self._frames = Frames()
        self._last = b""
        self._count = 0
        self._deltas = 0
        self._deltas_bytes = 0
        self._shortest_bytes = 1 << 62
        self._called = False
        self._mending = Mending(stamp)
        self._counts_anew = False  # whether the engine's own numbers do not hold any more

    @property
    def written_tokens(self) -> int:
        """One a delta, or, as not every engine sends single tokens, a quarter of the bytes by which they exceed the shortest of them."""
        return max(self._deltas, (self._deltas_bytes - self._deltas * self._shortest_bytes) // 4)

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
        if self.failure is not None:
            raise self.failure
        before = b"" if self.done else self._rest()
        if not self._last:
            raise CutShort("The engine ended its answer midway: no event said that the response is complete.")
        return before + self._last

    def _rest(self) -> bytes:
        """An event without the blank line that ends it. Half an event is none, and must not cost the caller an answer that is whole."""
        try:
            return b"".join([self._edit(data) for data in self._frames.end()])
        except Garbled:
            return b""

    def _edit(self, data: bytes) -> bytes:
        event = self._decoded(data)
        if event is None:
            return b""
        kind = event.type
        if kind in _FAILED:
            raise told_failure(data)
        before = self._begin(kind) if self._count < 2 else b""
        if event.response != NULL:
            return before + self._with_response(kind, event, data)
        is_delta = kind.endswith(".delta")
        if is_delta:
            self._deltas += 1
            self._deltas_bytes += len(data)
            if len(data) < self._shortest_bytes:
                self._shortest_bytes = len(data)
        if kind.startswith(_CALLS):
            self._called = True
        change: dict[str, Any] = {}
        if not is_delta or not self._mending.follows(event):
            found = self._mending.mend(event, data)
            before += self._said(found.before)
            if not found.passes:
                self._counts_anew = True
                return before
            change = found.change
        if change or (self._counts_anew and event.sequence_number is not None):
            data = msgspec.json.encode({**Body.read_reply(data), **change, "sequence_number": self._count})
        elif event.sequence_number is None:
            data = b'{"sequence_number":%d,%b' % (self._count, data.lstrip()[1:])
        self._count += 1
        return b"%bevent: %b\ndata: %b\n\n" % (before, kind.encode(), data)

    def _begin(self, kind: str) -> bytes:
        """What an engine should have begun with."""
        missing = [] if self._count or kind == "response.created" else ["response.created"]
        if kind not in ("response.created", "response.in_progress", "response.queued"):
            missing.append("response.in_progress")
        return self._said([{"type": each, "response": response_head(self._stamp)} for each in missing])

    def _said(self, events: Sequence[dict[str, Any]]) -> bytes:
        """What the engine left out."""
        out: list[bytes] = []
        for event in events:
            told = msgspec.json.encode({**event, "sequence_number": self._count})
            out.append(b"event: %b\ndata: %b\n\n" % (event["type"].encode(), told))
            self._count += 1
            self._counts_anew = True
        return b"".join(out)

    def _decoded(self, data: bytes) -> Told | None:
        """None for what ends the stream. Raises the error that is told in place of an event."""
        try:
            event = _events.decode(data)
        except UNREADABLE:
            if data.strip() == b"[DONE]":
                self.done = True
                return None
            event = self._odd(mended(data))
        if not event.type or "\n" in event.type or "\r" in event.type:
            raise failure_in(Body.read_reply(data)) or Garbled(f"The engine's event has no type: {data[:100]!r}.")
        return event

    def _odd(self, data: bytes) -> Told:
        try:
            return _events.decode(data)
        except UNREADABLE as fault:
            why = fault
        try:
            told = _bare.decode(data)
        except UNREADABLE:
            raise Garbled(f"The engine's event is not one of a Response: {why}.") from None
        return Told(told.type, told.sequence_number)

    def _with_response(self, kind: str, event: Told, data: bytes) -> bytes:
        outer = Body.read_reply(data)
        body = Body.read_reply(bytes(outer["response"]))
        if kind == "response.completed" and body.value("status") == "incomplete":  # as vLLM ends what max_output_tokens cut (seen on 0.32)
            kind = outer["type"] = "response.incomplete"
        before = b""
        if kind in _LAST:
            before = self._said(self._mending.complete(body))
            body["status"] = kind.removeprefix("response.")
            self.usage, reason = _ending(body)
            self.finish_reason = "tool_calls" if self._called and reason == "stop" else reason
        outer["response"] = stamped(body, self._stamp)
        if event.sequence_number is None or self._counts_anew:
            outer["sequence_number"] = self._count
        self._count += 1
        framed = b"event: %b\ndata: %b\n\n" % (kind.encode(), msgspec.json.encode(outer))
        if kind not in _LAST:
            return framed
        self._last, self.done = framed, True
        return before
