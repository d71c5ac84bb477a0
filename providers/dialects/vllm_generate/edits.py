"""The byte edit: an engine's token ids made the caller's. `request_id`, `model` and `usage` are ours, all else is the engine's own bytes.

The answer's `request_id` is the inference's id, by which it can be found again, also where the ask named one: that one goes to the engine.
"""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.chat import Usage
from providers.dialect import Edited, Stamp
from providers.errors import CutShort, Garbled, UpstreamError
from providers.openai_usage import read_usage
from providers.told import error_in
from providers.wire import NULL, UNREADABLE, Body, Frames, frame


class _Head(Struct):
    index: int = 0
    finish_reason: str | None = None
    token_ids: Raw = NULL


_heads = msgspec.json.Decoder(list[_Head])


def _written(head: _Head) -> int:
    """How many token ids: by what stands between them, for they are not ours to read."""
    ids = bytes(head.token_ids)
    return ids.count(b",") + 1 if ids.startswith(b"[") and ids.strip(b"[] \t\r\n") else 0


def edit(raw: bytes, stamp: Stamp) -> Edited:
    """A whole answer. Raises Garbled if it is none, or the error that an engine told with status 200."""
    body = Body.read_reply(raw)
    error = error_in(body)
    if error is not None:
        raise error
    try:
        heads = _heads.decode(body.get("choices", NULL))
    except UNREADABLE as fault:
        raise Garbled(f"The engine's answer holds no choices of token ids: {fault}.") from None
    if not heads:
        raise Garbled("The engine's answer has no choices.")
    usage = read_usage(body["usage"]) if body.said("usage") else None
    if usage is None:
        # vLLM 0.21 told none (llm-d's reference of it); what was written can be counted, and what was asked is known.
        usage = Usage(None, sum(map(_written, heads)))
    _named(body, stamp)
    return Edited(body.write(), usage, min(heads, key=_index).finish_reason)


def _index(head: _Head) -> int:
    return head.index


def _named(body: Body, stamp: Stamp) -> None:
    body["request_id"] = stamp.id
    if body.said("model"):
        body["model"] = stamp.model


class StreamEditor:
    """See providers.dialect.Editor. Usage is told as vLLM tells it, in a last frame without choices, if the caller asked for it.

    What finishes a choice waits, and all behind it, until a choice goes on that has not finished: only [DONE] tells that none will.
    `finish_reason` is the first choice's.
    """

    def __init__(self, stamp: Stamp) -> None:
        self.usage: Usage | None = None
        self.finish_reason: str | None = None
        self.failure: UpstreamError | None = None
        self.done = False
        self.written_tokens = 0
        self._stamp = stamp
        self._frames = Frames()
        self._held: list[bytes] = []
        self._finished: set[int] = set()

    def feed(self, block: bytes) -> bytes:
        out: list[bytes] = []
        try:
            for data in self._frames.feed(block):
                if self.done or self.failure is not None:
                    break
                out.append(self._edit(data))
        except UpstreamError as failure:
            self.failure = failure
            out.append(self._release())
        return b"".join(out)

    def end(self) -> bytes:
        if self.failure is not None:
            raise self.failure
        last = b"" if self.done else self._last()
        if self.finish_reason is None:
            raise CutShort("The engine ended its answer midway: no finish reason came.")
        return last + self._release() + b"data: [DONE]\n\n"

    def _last(self) -> bytes:
        """An event without the blank line that ends it. Half an event is none, and must not cost the caller an answer that is whole."""
        try:
            return b"".join([self._edit(data) for data in self._frames.end()])
        except Garbled:
            return b""

    def _edit(self, data: bytes) -> bytes:
        if data.strip() == b"[DONE]":
            self.done = True
            return b""
        body = Body.read_reply(data)
        if "error" in body or "choices" not in body:
            error = error_in(body)
            if error is not None:
                raise error
        usage: Any = body.get("usage", NULL)
        try:
            heads = _heads.decode(body.get("choices", NULL))
        except UNREADABLE as fault:
            raise Garbled(f"The engine's chunk holds no choices of token ids: {fault}.") from None
        _named(body, self._stamp)
        if usage != NULL:
            # Chunks with choices may tell it too (continuous_usage_stats), but of that choice alone.
            self.usage = self.usage if heads else read_usage(usage)
            if not self._stamp.wants_usage:
                if not heads:
                    return b""
                body["usage"] = NULL
        return self._in_turn(heads, frame(body.write()))

    def _in_turn(self, heads: list[_Head], chunk: bytes) -> bytes:
        finishing = going_on = False
        for head in heads:
            self.written_tokens += _written(head)
            if head.finish_reason:
                finishing = True
                if head.index not in self._finished and (head.index == 0 or self.finish_reason is None):
                    self.finish_reason = head.finish_reason
                self._finished.add(head.index)
            elif head.index not in self._finished:
                going_on = True
        if self._held and not finishing and not going_on:
            self._held.append(chunk)
            return b""
        before = self._release()
        if finishing:
            self._held.append(chunk)
            return before
        return before + chunk

    def _release(self) -> bytes:
        held, self._held = self._held, []
        return b"".join(held)
