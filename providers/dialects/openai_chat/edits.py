"""The byte edit: an engine's answer in OpenAI chat made the caller's. Our keys are replaced, everything else is the engine's own bytes.

Which keys: id, model, episode_id, usage, and the reasoning field's name (`reasoning` of vLLM >= 0.16 and Ollama is told as the
documented `reasoning_content`).
"""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.chat import Usage
from providers.dialect import Edited, Stamp
from providers.errors import CutShort, Garbled, UpstreamError
from providers.told import error_in
from providers.wire import NULL, UNREADABLE, Body, Frames, frame

_EMPTY = Raw(b'""')


# No engine has counted more; and what it costs, at whatever price, stays within a database's 63 bits.
_MOST_TOKENS = 2**40


class _Details(Struct):
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Usage(Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None


class _Head(Struct):
    index: int | None = None
    finish_reason: str | None = None


_heads = msgspec.json.Decoder(list[_Head])
_choices = msgspec.json.Decoder(list[dict[str, Raw]])
_message = msgspec.json.Decoder(dict[str, Raw])
_usage = msgspec.json.Decoder(_Usage)


def read_usage(raw: bytes | Raw) -> Usage | None:
    """Tokens as OpenAI chat reports them; None if they are told in another way: that must not cost a good answer.

    Source: https://platform.openai.com/docs/api-reference/chat/object, read 2026-11.
    """
    try:
        told = _usage.decode(raw)
    except UNREADABLE:
        return None
    return Usage(
        input=_possible(told.prompt_tokens),
        output=_possible(told.completion_tokens),
        cached=_possible(told.prompt_tokens_details.cached_tokens) if told.prompt_tokens_details else None,
        reasoning=_possible(told.completion_tokens_details.reasoning_tokens) if told.completion_tokens_details else None,
    )


def _possible(count: int | None) -> int | None:
    return count if count is not None and 0 <= count <= _MOST_TOKENS else None


def edit(raw: bytes, stamp: Stamp) -> Edited:
    """A whole answer. Raises Garbled if it is none, or the error that an engine told with status 200."""
    body = Body.read_reply(raw)
    error = error_in(body)
    if error is not None:
        raise error
    choices = body.get("choices", NULL)
    try:
        heads = _heads.decode(choices)
        usage = read_usage(body["usage"]) if body.said("usage") else None
        body["choices"] = _with_reasoning_named(choices, "message")
    except UNREADABLE as fault:
        raise Garbled(f"The engine's answer is not a chat completion: {fault}.") from None
    if not heads:
        raise Garbled("The engine's answer has no choices.")
    body["id"], body["episode_id"], body["model"] = stamp.id, stamp.episode_id, stamp.model
    body["object"] = "chat.completion"
    if not body.said("created"):
        body["created"] = stamp.created
    for key in ("system_fingerprint", "service_tier"):
        if not body.said(key):
            body[key] = _EMPTY
    return Edited(body.write(), usage, min(heads, key=_index).finish_reason)


def _index(head: _Head) -> int:
    return head.index or 0


class StreamEditor:
    """See providers.dialect.Editor. Usage is told once, on the chunk with the finish reason, if the caller asked for it.

    Engines tell it in a chunk of its own after that, or in one that says no more (OpenRouter), so a chunk that finishes a choice
    waits, and what follows waits behind it, until a choice goes on that has not finished. `finish_reason` is the first choice's.
    """

    def __init__(self, stamp: Stamp) -> None:
        self.usage: Usage | None = None
        self.finish_reason: str | None = None
        self.failure: UpstreamError | None = None
        self.done = False
        self._chunks = 0
        self._chunks_bytes = 0
        self._shortest_bytes = 1 << 62
        self._stamp = stamp
        self._frames = Frames()
        self._held: list[Body] = []
        self._finished: set[int] = set()
        self._told: Any = None

    @property
    def written_tokens(self) -> int:
        """One a chunk, or, as not every engine sends single tokens, a quarter of the bytes by which chunks exceed the shortest of them."""
        return max(self._chunks, (self._chunks_bytes - self._chunks * self._shortest_bytes) // 4)

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
        if self._told is not None and self._stamp.wants_usage:
            self._tell_usage()
        return last + self._release() + b"data: [DONE]\n\n"

    def _last(self) -> bytes:
        """An event without the blank line that ends it. Half an event is none, and must not cost the caller an answer that is whole."""
        try:
            return b"".join([self._edit(data) for data in self._frames.end()])
        except Garbled:
            return b""

    def _tell_usage(self) -> None:
        if not self._held:
            # The finish reason has gone out already: a chunk of its own, as OpenAI tells usage.
            self._held.append(self._named(Body(object="chat.completion.chunk", created=self._stamp.created, choices=[])))
        self._held[0]["usage"] = self._told

    def _edit(self, data: bytes) -> bytes:
        if data.strip() == b"[DONE]":
            self.done = True
            return b""
        body = Body.read_reply(data)
        if "error" in body or "choices" not in body:
            error = error_in(body)
            if error is not None:
                raise error
        usage = body.pop("usage", NULL)
        choices = body.get("choices", NULL)
        try:
            heads = [] if choices == NULL and usage != NULL else _heads.decode(choices)
            if usage != NULL:
                self.usage, self._told = read_usage(usage), usage
            if heads:
                body["choices"] = _with_reasoning_named(choices, "delta")
        except UNREADABLE as fault:
            raise Garbled(f"The engine's chunk is not a chat completion chunk: {fault}.") from None
        if not heads and usage != NULL:
            for key in (body.keys() - self._held[0].keys()) if self._held else ():
                self._held[0][key] = body[key]
            return b""
        self._named(body)
        self._chunks += 1
        self._chunks_bytes += len(data)
        if len(data) < self._shortest_bytes:
            self._shortest_bytes = len(data)
        finishing = going_on = False
        for head in heads:
            index = head.index or 0
            if head.finish_reason:
                finishing = True
                if index not in self._finished and (index == 0 or self.finish_reason is None):
                    self.finish_reason = head.finish_reason
                self._finished.add(index)
            elif index not in self._finished:
                going_on = True
        if self._held and not finishing and not going_on:
            self._held.append(body)
            return b""
        before = self._release()
        if finishing:
            self._held.append(body)
            return before
        return before + frame(body.write())

    def _named(self, body: Body) -> Body:
        stamp = self._stamp
        body["id"], body["model"], body["episode_id"] = stamp.id, stamp.model, stamp.episode_id
        return body

    def _release(self) -> bytes:
        if not self._held:
            return b""
        held, self._held = self._held, []
        return b"".join([frame(body.write()) for body in held])


def _with_reasoning_named(choices: Raw, inside: str) -> Any:
    """`reasoning` told as `reasoning_content`; an engine that tells both (vLLM 0.12 to 0.15) is left alone."""
    if b'"reasoning"' not in bytes(choices):
        return choices
    renamed = _choices.decode(choices)
    for choice in renamed:
        said = _message.decode(choice[inside]) if inside in choice and choice[inside] != NULL else {}
        if "reasoning" in said and "reasoning_content" not in said:
            choice[inside] = Raw(
                msgspec.json.encode({("reasoning_content" if key == "reasoning" else key): value for key, value in said.items()})
            )
    return renamed
