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
from providers.wire import NULL, Body, Frames, frame

_EMPTY = Raw(b'""')


class _Details(Struct):
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Usage(Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None


class _Head(Struct):
    finish_reason: str | None = None


_heads = msgspec.json.Decoder(list[_Head])
_choices = msgspec.json.Decoder(list[dict[str, Raw]])
_message = msgspec.json.Decoder(dict[str, Raw])
_usage = msgspec.json.Decoder(_Usage)


def read_usage(raw: bytes | Raw) -> Usage:
    """Tokens as OpenAI chat reports them. Source: https://platform.openai.com/docs/api-reference/chat/object, read 2026-11."""
    told = _usage.decode(raw)
    return Usage(
        input=told.prompt_tokens,
        output=told.completion_tokens,
        cached=told.prompt_tokens_details.cached_tokens if told.prompt_tokens_details else None,
        reasoning=told.completion_tokens_details.reasoning_tokens if told.completion_tokens_details else None,
    )


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
    except msgspec.DecodeError as fault:
        raise Garbled(f"The engine's answer is not a chat completion: {fault}.") from None
    if not heads:
        raise Garbled("The engine's answer has no choices.")
    body["choices"] = _with_reasoning_named(choices, "message")
    body["id"], body["episode_id"], body["model"] = stamp.id, stamp.episode_id, stamp.model
    body["object"] = "chat.completion"
    if not body.said("created"):
        body["created"] = stamp.created
    for key in ("system_fingerprint", "service_tier"):
        if not body.said(key):
            body[key] = _EMPTY
    return Edited(body.write(), usage, heads[0].finish_reason)


class StreamEditor:
    """See providers.dialect.Editor. Usage is told once, on the chunk with the finish reason, if the caller asked for it.

    Engines tell it in a chunk of its own after that, so a chunk that finishes a choice waits for what follows it.
    """

    def __init__(self, stamp: Stamp) -> None:
        self.usage: Usage | None = None
        self.finish_reason: str | None = None
        self.failure: UpstreamError | None = None
        self.done = False
        self._stamp = stamp
        self._frames = Frames()
        self._held: Body | None = None
        self._told: Any = None

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
        last = b"" if self.done or self.failure is not None else b"".join([self._edit(data) for data in self._frames.end()])
        if self.failure is not None:
            raise self.failure
        if self.finish_reason is None:
            raise CutShort("The engine ended its answer midway: no finish reason came.")
        return last + self._release(self._told if self._stamp.wants_usage else None) + b"data: [DONE]\n\n"

    def _edit(self, data: bytes) -> bytes:
        if data == b"[DONE]":
            self.done = True
            return b""
        body = Body.read_reply(data)
        if "error" in body or "object" not in body:
            error = error_in(body)
            if error is not None:
                raise error
        usage = body.pop("usage", NULL)
        choices = body.get("choices", NULL)
        try:
            heads = _heads.decode(choices)
            if usage != NULL:
                self.usage, self._told = read_usage(usage), usage
        except msgspec.DecodeError as fault:
            raise Garbled(f"The engine's chunk is not a chat completion chunk: {fault}.") from None
        if not heads and usage != NULL:
            return b""
        stamp = self._stamp
        body["id"], body["model"], body["episode_id"] = stamp.id, stamp.model, stamp.episode_id
        body["choices"] = _with_reasoning_named(choices, "delta")
        before = self._release(None)
        for head in heads:
            if head.finish_reason is not None:
                self.finish_reason = head.finish_reason if self.finish_reason is None else self.finish_reason
                self._held = body
                return before
        return before + frame(body.write())

    def _release(self, usage: Any) -> bytes:
        if self._held is None:
            return b""
        held, self._held = self._held, None
        if usage is not None:
            held["usage"] = usage
        return frame(held.write())


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
