"""The byte edit of a stream of OpenAI's chat or completions: our keys are replaced, everything else is the engine's own bytes."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.canonical.chat import Usage
from providers.canonical.errors import InvalidUpstreamResponse, StreamTruncated, UpstreamError, UpstreamFailed
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body, SSEDecoder, merge_object, sse_frame
from providers.canonical.upstream_errors import find_error
from providers.dialect import ResponseMeta
from providers.dialects.openai.finish_reasons import FINISH_REASONS, normalize_finish_reasons
from providers.dialects.openai.usage import groq_usage, normalize_usage


class ChoiceHead(Struct):
    """What of a choice every edit must know."""

    index: int | None = None
    finish_reason: str | None = None


# Finish reasons of vLLM, SGLang, LMDeploy, OpenRouter and DeepSeek for what is no answer.
_FAILED_FINISH_REASONS = frozenset({"error", "abort", "parse_error", "insufficient_system_resource"})


def check_finish_reason(reason: str | None) -> None:
    """Raises Failed for a finish reason that says that what came before is no answer."""
    if reason in _FAILED_FINISH_REASONS:
        raise UpstreamFailed(f"The engine gave its answer up midway (finish_reason {reason!r}).")


read_heads = msgspec.json.Decoder(list[ChoiceHead]).decode
_raws = msgspec.json.Decoder(list[Raw]).decode
_CHOICES = b'"choices":'
_EMPTY = Raw(b'""')
# So many chunks that are not alike, one after the other, and none is expected any more.
_MAX_UNLIKE_CHUNKS = 8


class _ChunkTemplate(Struct, frozen=True):
    """What stands around the choices of one chunk after another, and what we write before them; after them stands nothing of ours."""

    before: bytes
    after: bytes
    prefix: bytes

    def choices(self, data: bytes) -> bytes | None:
        """Those of a chunk like the others, which go on with an answer and end none."""
        if not (data.startswith(self.before) and data.endswith(self.after)):
            return None
        choices = data[len(self.before) : -len(self.after)]
        try:
            heads = read_heads(choices)
        except DECODE_ERRORS:
            return None
        for head in heads:
            if head.finish_reason:
                return None
        return choices if heads else None


class OpenAIStreamEditor:
    """See providers.dialect.Editor. Usage is told once, on the chunk with the finish reason, if the caller asked for it.

    Engines tell it in a chunk of its own after that, or in one that says no more (OpenRouter), so a chunk that finishes a choice
    waits, and what follows waits behind it, until a choice goes on that has not finished. `finish_reason` is the first choice's.
    A choice that finishes again is passed over.
    `shape`: makes the choices of a chunk what its dialect promises, and gives the same bytes where they are; called once a chunk, in order.
    """

    def __init__(self, meta: ResponseMeta, id: str, object: str, normalize_choices: Callable[[bytes], bytes]) -> None:
        self.usage: Usage | None = None
        self.finish_reason: str | None = None
        self.failure: UpstreamError | None = None
        self.done = False
        self._chunks = 0
        self._chunks_bytes = 0
        self._shortest_bytes = 1 << 62
        self._meta = meta
        self._id = id
        self._object = object
        self._normalize_choices = normalize_choices
        self._sse_decoder = SSEDecoder()
        self._held_chunks: list[Body] = []
        self._finished: set[int] = set()
        self._raw_usage: Any = None
        self._unlike_chunks = 0
        self._last_template: tuple[bytes, bytes] | None = None
        self._template: _ChunkTemplate | None = None

    @property
    def written_tokens(self) -> int:
        """One a chunk, or, as not every engine sends single tokens, a quarter of the bytes by which chunks exceed the shortest of them."""
        return max(self._chunks, (self._chunks_bytes - self._chunks * self._shortest_bytes) // 4)

    def feed(self, block: bytes) -> bytes:
        out: list[bytes] = []
        try:
            for data in self._sse_decoder.feed(block):
                if self.done or self.failure is not None:
                    break
                out.append(self._edit(data))
        except UpstreamError as failure:
            self.failure = failure
            out.append(self._release())
        return b"".join(out)

    def finish(self) -> bytes:
        if self.failure is not None:
            raise self.failure
        last = b"" if self.done else self._edit_last()
        if self.finish_reason is None:
            raise StreamTruncated("The engine ended its answer midway: no finish reason came.")
        if self._raw_usage is not None and self._meta.wants_usage:
            self._write_usage()
        return last + self._release() + b"data: [DONE]\n\n"

    def _edit_last(self) -> bytes:
        """An event without the blank line that ends it. Half an event is none, and must not cost the caller an answer that is whole."""
        try:
            return b"".join([self._edit(data) for data in self._sse_decoder.finish()])
        except InvalidUpstreamResponse:
            return b""

    def _write_usage(self) -> None:
        if not self._held_chunks:
            # The finish reason has gone out already: a chunk of its own, as OpenAI tells usage.
            self._held_chunks.append(self._with_meta(Body(choices=[])))
        self._held_chunks[0]["usage"] = self._raw_usage

    def _edit(self, data: bytes) -> bytes:
        template = self._template
        if template is not None and not self._held_chunks:
            choices = template.choices(data)
            if choices is not None:
                self._count(data)
                return b"%b%b}\n\n" % (template.prefix, self._normalized(choices))
        return self._edit_decoded(data)

    def _edit_decoded(self, data: bytes) -> bytes:
        if data.strip() == b"[DONE]":
            self.done = True
            return b""
        body = Body.read_response(data)
        if "error" in body or "choices" not in body:
            error = find_error(body)
            if error is not None:
                raise error
        usage = body.pop("usage", NULL)
        if usage == NULL and "x_groq" in body:
            usage = groq_usage(body["x_groq"]) or NULL
        service_tier = body.value("service_tier")
        self._edit_chunk_fields(body)
        choices = body.get("choices", NULL)
        try:
            heads = [] if choices == NULL and usage != NULL else read_heads(choices)
            if usage != NULL:
                self.usage, self._raw_usage = normalize_usage(usage, service_tier)
        except DECODE_ERRORS as decode_error:
            raise _invalid_chunk(decode_error) from None
        if not heads and usage != NULL:
            for key in (body.keys() - self._held_chunks[0].keys()) if self._held_chunks else ():
                self._held_chunks[0][key] = body[key]
            return b""
        self._count(data)
        repeated = self._repeated_finishes(heads) if self._finished else None
        if repeated and len(repeated) == len(heads):
            return b""
        if heads:
            raw = bytes(choices)
            has_other_reasons = any([head.finish_reason in FINISH_REASONS for head in heads])
            normalized = self._normalized(normalize_finish_reasons(raw) if has_other_reasons else raw)
            if repeated:
                body["choices"] = _without_choices(normalized, repeated)
            elif normalized is not raw:
                body["choices"] = Raw(normalized)
                heads = read_heads(normalized)
        finishing, continuing = self._track_choices(heads)
        self._with_meta(body)
        if self._held_chunks and not finishing and not continuing:
            self._held_chunks.append(body)
            return b""
        released = self._release()
        if finishing:
            self._held_chunks.append(body)
            return released
        if self._unlike_chunks < _MAX_UNLIKE_CHUNKS:
            self._learn_template(data, bytes(choices))
        return released + sse_frame(body.write())

    def _edit_chunk_fields(self, body: Body) -> None:
        """What a dialect makes of a chunk beside its choices."""

    def _track_choices(self, heads: list[ChoiceHead]) -> tuple[bool, bool]:
        """Whether a choice finishes here, and whether one goes on."""
        finishing = continuing = False
        for head in heads:
            index = head.index or 0
            if index in self._finished:
                continue
            if head.finish_reason:
                check_finish_reason(head.finish_reason)
                finishing = True
                if index == 0 or self.finish_reason is None:
                    self.finish_reason = head.finish_reason
                self._finished.add(index)
            else:
                continuing = True
        return finishing, continuing

    def _repeated_finishes(self, heads: list[ChoiceHead]) -> set[int]:
        """Where choices stand that finish again."""
        return {at for at, head in enumerate(heads) if head.finish_reason and (head.index or 0) in self._finished}

    def _normalized(self, choices: bytes) -> bytes:
        try:
            return self._normalize_choices(choices)
        except DECODE_ERRORS as fault:
            raise _invalid_chunk(fault) from None

    def _count(self, data: bytes) -> None:
        size = len(data)
        self._chunks += 1
        self._chunks_bytes += size
        if size < self._shortest_bytes:
            self._shortest_bytes = size

    def _learn_template(self, data: bytes, choices: bytes) -> None:
        """What stands around the choices, once two chunks in a row had it. Not of who always says something else (OpenAI's obfuscation)."""
        self._unlike_chunks += 1
        before, key, remainder = data.partition(_CHOICES)
        remainder = remainder.lstrip()
        around = before + key, remainder[len(choices) :]
        if around != self._last_template or not remainder.startswith(choices):
            self._last_template = around
            return
        try:
            body = Body.read(around[0] + b"null" + around[1])
        except DECODE_ERRORS:
            return
        # Where it is not null, the choices that were found are not the chunk's own, but stand within something else.
        if body.pop("choices") != NULL or body.has_value("usage") or "x_groq" in body or "error" in body:
            return
        self._unlike_chunks = 0
        body.pop("usage", None)
        self._template = _ChunkTemplate(*around, b"data: " + self._with_meta(body).write()[:-1] + b',"choices":')

    def _with_meta(self, body: Body) -> Body:
        meta = self._meta
        body["id"], body["model"], body["episode_id"] = self._id, meta.model, meta.episode_id
        object_field = body.get("object", NULL)
        # Engines tell a completion where a chat was asked for (mini-sglang: text_completion.chunk); Azure's first chunk says "".
        if object_field in (NULL, _EMPTY) or bytes(object_field).startswith(b'"text_completion'):
            body["object"] = self._object
        if "created" not in body:
            body["created"] = meta.created
        return body

    def _release(self) -> bytes:
        if not self._held_chunks:
            return b""
        held_chunks, self._held_chunks = self._held_chunks, []
        return b"".join([sse_frame(body.write()) for body in held_chunks])


def _without_choices(choices: bytes, positions: set[int]) -> list[Raw]:
    return [choice for at, choice in enumerate(_raws(choices)) if at not in positions]


def _invalid_chunk(error: Exception) -> InvalidUpstreamResponse:
    return InvalidUpstreamResponse(f"The engine's chunk is not of the shape that its API promises: {error}.")


def prepare_upstream_body(body: Body, stream: bool, *, tell_usage: bool) -> None:
    """Makes a request one for a stream, which tells usage if it may be asked to, or for a whole answer."""
    if not stream:
        body.pop("stream", None)
        body.pop("stream_options", None)
        return
    body["stream"] = True
    if tell_usage:
        body["stream_options"] = merge_object(body.get("stream_options"), {"include_usage": True})
    else:
        body.pop("stream_options", None)
