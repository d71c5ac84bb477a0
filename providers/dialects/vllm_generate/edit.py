"""The byte edit: an engine's token ids made the caller's. `request_id`, `model` and `usage` are ours, all else is the engine's own bytes.

The answer's `request_id` is the inference's id, by which it can be found again, also where the ask named one: that one goes to the engine.
"""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.canonical.chat import Usage
from providers.canonical.errors import InvalidUpstreamResponse, StreamTruncated, UpstreamError
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body, SSEDecoder, sse_frame
from providers.canonical.upstream_errors import find_error
from providers.dialect import OutboundResponse, ResponseMeta
from providers.dialects.openai.usage import read_usage


class _ChoiceHead(Struct):
    index: int = 0
    finish_reason: str | None = None
    token_ids: Raw = NULL


_heads_decoder = msgspec.json.Decoder(list[_ChoiceHead])


def _token_count(head: _ChoiceHead) -> int:
    """How many token ids: by what stands between them, for they are not ours to read."""
    ids = bytes(head.token_ids)
    return ids.count(b",") + 1 if ids.startswith(b"[") and ids.strip(b"[] \t\r\n") else 0


def edit_response(raw: bytes, meta: ResponseMeta) -> OutboundResponse:
    """A whole answer. Raises Garbled if it is none, or the error that an engine told with status 200."""
    body = Body.read_response(raw)
    error = find_error(body)
    if error is not None:
        raise error
    try:
        heads = _heads_decoder.decode(body.get("choices", NULL))
    except DECODE_ERRORS as decode_error:
        raise InvalidUpstreamResponse(f"The engine's answer holds no choices of token ids: {decode_error}.") from None
    if not heads:
        raise InvalidUpstreamResponse("The engine's answer has no choices.")
    usage = read_usage(body["usage"]) if body.has_value("usage") else None
    if usage is None:
        # vLLM 0.21 told none (llm-d's reference of it); what was written can be counted, and what was asked is known.
        usage = Usage(None, sum(map(_token_count, heads)))
    _set_identity(body, meta)
    return OutboundResponse(body.write(), usage, min(heads, key=_index).finish_reason)


def _index(head: _ChoiceHead) -> int:
    return head.index


def _set_identity(body: Body, meta: ResponseMeta) -> None:
    body["request_id"] = meta.id
    if body.has_value("model"):
        body["model"] = meta.model


class TokenStreamEditor:
    """See providers.dialect.Editor. Usage is told as vLLM tells it, in a last frame without choices, if the caller asked for it.

    What finishes a choice waits, and all behind it, until a choice goes on that has not finished: only [DONE] tells that none will.
    `finish_reason` is the first choice's.
    """

    def __init__(self, meta: ResponseMeta) -> None:
        self.usage: Usage | None = None
        self.finish_reason: str | None = None
        self.failure: UpstreamError | None = None
        self.done = False
        self.written_tokens = 0
        self._meta = meta
        self._frames = SSEDecoder()
        self._withheld: list[bytes] = []
        self._finished: set[int] = set()

    def feed(self, block: bytes) -> bytes:
        out: list[bytes] = []
        try:
            for data in self._frames.feed(block):
                if self.done or self.failure is not None:
                    break
                out.append(self._edit_chunk(data))
        except UpstreamError as failure:
            self.failure = failure
            out.append(self._release_withheld())
        return b"".join(out)

    def finish(self) -> bytes:
        if self.failure is not None:
            raise self.failure
        remainder = b"" if self.done else self._edit_remainder()
        if self.finish_reason is None:
            raise StreamTruncated("The engine ended its answer midway: no finish reason came.")
        return remainder + self._release_withheld() + b"data: [DONE]\n\n"

    def _edit_remainder(self) -> bytes:
        """An event without the blank line that ends it. Half an event is none, and must not cost the caller an answer that is whole."""
        try:
            return b"".join([self._edit_chunk(data) for data in self._frames.finish()])
        except InvalidUpstreamResponse:
            return b""

    def _edit_chunk(self, data: bytes) -> bytes:
        if data.strip() == b"[DONE]":
            self.done = True
            return b""
        body = Body.read_response(data)
        if "error" in body or "choices" not in body:
            error = find_error(body)
            if error is not None:
                raise error
        usage: Any = body.get("usage", NULL)
        try:
            heads = _heads_decoder.decode(body.get("choices", NULL))
        except DECODE_ERRORS as decode_error:
            raise InvalidUpstreamResponse(f"The engine's chunk holds no choices of token ids: {decode_error}.") from None
        _set_identity(body, self._meta)
        if usage != NULL:
            # Chunks with choices may tell it too (continuous_usage_stats), but of that choice alone.
            self.usage = self.usage if heads else read_usage(usage)
            if not self._meta.wants_usage:
                if not heads:
                    return b""
                body["usage"] = NULL
        return self._withhold_finish(heads, sse_frame(body.write()))

    def _withhold_finish(self, heads: list[_ChoiceHead], chunk: bytes) -> bytes:
        finishing = continuing = False
        for head in heads:
            self.written_tokens += _token_count(head)
            if head.finish_reason:
                finishing = True
                if head.index not in self._finished and (head.index == 0 or self.finish_reason is None):
                    self.finish_reason = head.finish_reason
                self._finished.add(head.index)
            elif head.index not in self._finished:
                continuing = True
        if self._withheld and not finishing and not continuing:
            self._withheld.append(chunk)
            return b""
        released = self._release_withheld()
        if finishing:
            self._withheld.append(chunk)
            return released
        return released + chunk

    def _release_withheld(self) -> bytes:
        withheld, self._withheld = self._withheld, []
        return b"".join(withheld)
