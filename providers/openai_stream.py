"""The byte edit of a stream of OpenAI's chat or completions: our keys are replaced, everything else is the engine's own bytes."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.chat import Usage
from providers.dialect import Stamp
from providers.errors import CutShort, Failed, Garbled, UpstreamError
from providers.openai_endings import PLAIN, with_plain_endings
from providers.openai_usage import groq_usage, told_usage
from providers.told import error_in
from providers.wire import NULL, UNREADABLE, Body, Frames, frame, merged


class Head(Struct):
    """What of a choice every edit must know."""

    index: int | None = None
    finish_reason: str | None = None


# Finish reasons of vLLM, SGLang, LMDeploy, OpenRouter and DeepSeek for what is no answer.
_GIVEN_UP = frozenset({"error", "abort", "parse_error", "insufficient_system_resource"})


def check_ending(reason: str | None) -> None:
    """Raises Failed for a finish reason that says that what came before is no answer."""
    if reason in _GIVEN_UP:
        raise Failed(f"The engine gave its answer up midway (finish_reason {reason!r}).")


read_heads = msgspec.json.Decoder(list[Head]).decode
_raws = msgspec.json.Decoder(list[Raw]).decode
_CHOICES = b'"choices":'
_EMPTY = Raw(b'""')
# So many chunks that are not alike, one after the other, and none is expected any more.
_TRIES = 8


class _Likeness(Struct, frozen=True):
    """What stands around the choices of one chunk after another, and what we write before them; after them stands nothing of ours."""

    before: bytes
    after: bytes
    ours: bytes

    def choices(self, data: bytes) -> bytes | None:
        """Those of a chunk like the others, which go on with an answer and end none."""
        if not (data.startswith(self.before) and data.endswith(self.after)):
            return None
        choices = data[len(self.before) : -len(self.after)]
        try:
            heads = read_heads(choices)
        except UNREADABLE:
            return None
        for head in heads:
            if head.finish_reason:
                return None
        return choices if heads else None


class StreamEditor:
    """See providers.dialect.Editor. Usage is told once, on the chunk with the finish reason, if the caller asked for it.

    Engines tell it in a chunk of its own after that, or in one that says no more (OpenRouter), so a chunk that finishes a choice
    waits, and what follows waits behind it, until a choice goes on that has not finished. `finish_reason` is the first choice's.
    A choice that finishes again is passed over.
    `shape`: makes the choices of a chunk what its dialect promises, and gives the same bytes where they are; called once a chunk, in order.
    """

    def __init__(self, stamp: Stamp, id: str, object: str, shape: Callable[[bytes], bytes]) -> None:
        self.usage: Usage | None = None
        self.finish_reason: str | None = None
        self.failure: UpstreamError | None = None
        self.done = False
        self._chunks = 0
        self._chunks_bytes = 0
        self._shortest_bytes = 1 << 62
        self._stamp = stamp
        self._id = id
        self._object = object
        self._shape = shape
        self._frames = Frames()
        self._held: list[Body] = []
        self._finished: set[int] = set()
        self._told: Any = None
        self._unlike = 0
        self._around: tuple[bytes, bytes] | None = None
        self._likeness: _Likeness | None = None

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
            self._held.append(self._named(Body(choices=[])))
        self._held[0]["usage"] = self._told

    def _edit(self, data: bytes) -> bytes:
        like = self._likeness
        if like is not None and not self._held:
            choices = like.choices(data)
            if choices is not None:
                self._count(data)
                return b"%b%b}\n\n" % (like.ours, self._shaped(choices))
        return self._edit_unlike(data)

    def _edit_unlike(self, data: bytes) -> bytes:
        if data.strip() == b"[DONE]":
            self.done = True
            return b""
        body = Body.read_reply(data)
        if "error" in body or "choices" not in body:
            error = error_in(body)
            if error is not None:
                raise error
        usage = body.pop("usage", NULL)
        if usage == NULL and "x_groq" in body:
            usage = groq_usage(body["x_groq"]) or NULL
        service_tier = body.value("service_tier")
        self._tidy(body)
        choices = body.get("choices", NULL)
        try:
            heads = [] if choices == NULL and usage != NULL else read_heads(choices)
            if usage != NULL:
                self.usage, self._told = told_usage(usage, service_tier)
        except UNREADABLE as fault:
            raise _garbled(fault) from None
        if not heads and usage != NULL:
            for key in (body.keys() - self._held[0].keys()) if self._held else ():
                self._held[0][key] = body[key]
            return b""
        self._count(data)
        again = self._again(heads) if self._finished else None
        if again and len(again) == len(heads):
            return b""
        if heads:
            raw = bytes(choices)
            ends_otherwise = any([head.finish_reason in PLAIN for head in heads])
            shaped = self._shaped(with_plain_endings(raw) if ends_otherwise else raw)
            if again:
                body["choices"] = _without(shaped, again)
            elif shaped is not raw:
                body["choices"] = Raw(shaped)
                heads = read_heads(shaped)
        finishing, going_on = self._note(heads)
        self._named(body)
        if self._held and not finishing and not going_on:
            self._held.append(body)
            return b""
        before = self._release()
        if finishing:
            self._held.append(body)
            return before
        if self._unlike < _TRIES:
            self._learn(data, bytes(choices))
        return before + frame(body.write())

    def _tidy(self, body: Body) -> None:
        """What a dialect makes of a chunk beside its choices."""

    def _note(self, heads: list[Head]) -> tuple[bool, bool]:
        """Whether a choice finishes here, and whether one goes on."""
        finishing = going_on = False
        for head in heads:
            index = head.index or 0
            if index in self._finished:
                continue
            if head.finish_reason:
                check_ending(head.finish_reason)
                finishing = True
                if index == 0 or self.finish_reason is None:
                    self.finish_reason = head.finish_reason
                self._finished.add(index)
            else:
                going_on = True
        return finishing, going_on

    def _again(self, heads: list[Head]) -> set[int]:
        """Where choices stand that finish again."""
        return {at for at, head in enumerate(heads) if head.finish_reason and (head.index or 0) in self._finished}

    def _shaped(self, choices: bytes) -> bytes:
        try:
            return self._shape(choices)
        except UNREADABLE as fault:
            raise _garbled(fault) from None

    def _count(self, data: bytes) -> None:
        size = len(data)
        self._chunks += 1
        self._chunks_bytes += size
        if size < self._shortest_bytes:
            self._shortest_bytes = size

    def _learn(self, data: bytes, choices: bytes) -> None:
        """What stands around the choices, once two chunks in a row had it. Not of who always says something else (OpenAI's obfuscation)."""
        self._unlike += 1
        before, key, rest = data.partition(_CHOICES)
        rest = rest.lstrip()
        around = before + key, rest[len(choices) :]
        if around != self._around or not rest.startswith(choices):
            self._around = around
            return
        try:
            body = Body.read(around[0] + b"null" + around[1])
        except UNREADABLE:
            return
        # Where it is not null, the choices that were found are not the chunk's own, but stand within something else.
        if body.pop("choices") != NULL or body.said("usage") or "x_groq" in body or "error" in body:
            return
        self._unlike = 0
        body.pop("usage", None)
        self._likeness = _Likeness(*around, b"data: " + self._named(body).write()[:-1] + b',"choices":')

    def _named(self, body: Body) -> Body:
        stamp = self._stamp
        body["id"], body["model"], body["episode_id"] = self._id, stamp.model, stamp.episode_id
        said = body.get("object", NULL)
        # Engines tell a completion where a chat was asked for (mini-sglang: text_completion.chunk); Azure's first chunk says "".
        if said in (NULL, _EMPTY) or bytes(said).startswith(b'"text_completion'):
            body["object"] = self._object
        if "created" not in body:
            body["created"] = stamp.created
        return body

    def _release(self) -> bytes:
        if not self._held:
            return b""
        held, self._held = self._held, []
        return b"".join([frame(body.write()) for body in held])


def _without(choices: bytes, places: set[int]) -> list[Raw]:
    return [choice for at, choice in enumerate(_raws(choices)) if at not in places]


def _garbled(fault: Exception) -> Garbled:
    return Garbled(f"The engine's chunk is not of the shape that its API promises: {fault}.")


def prepare(body: Body, stream: bool, *, tell_usage: bool) -> None:
    """Makes a request one for a stream, which tells usage if it may be asked to, or for a whole answer."""
    if not stream:
        body.pop("stream", None)
        body.pop("stream_options", None)
        return
    body["stream"] = True
    if tell_usage:
        body["stream_options"] = merged(body.get("stream_options"), {"include_usage": True})
    else:
        body.pop("stream_options", None)
