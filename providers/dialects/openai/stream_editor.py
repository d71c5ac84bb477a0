"""The byte edit of a stream of OpenAI's chat or completions: our fields are replaced, the rest stays the engine's own bytes."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw

from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.finish_reasons import check_failure, recorded_finish_reason
from providers.canonical.loose_types import with_expected_types
from providers.canonical.model_names import read_model_name
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body
from providers.canonical.sse import sse_frame
from providers.canonical.timestamps import whole_seconds
from providers.canonical.upstream_errors import find_error
from providers.dialect import ResponseMeta
from providers.dialects.openai.answers import has_content
from providers.dialects.openai.choice_heads import ChoiceHead, read_heads
from providers.dialects.openai.chunk_template import ChunkTemplate
from providers.dialects.openai.finish_reasons import UNCHANGED_FINISH_REASONS, normalize_finish_reasons
from providers.dialects.openai.service_tiers import write_service_tier
from providers.dialects.openai.usage import groq_usage, normalize_usage, write_usage
from providers.stream_editor import SSEStreamEditor, unescaped_size

_CHOICES = b'"choices":'
_raws = msgspec.json.Decoder(list[Raw]).decode
# After so many chunks in a row that do not match, no template is looked for any more.
_MAX_UNLIKE_CHUNKS = 8


class OpenAIStreamEditor(SSEStreamEditor):
    """A stream editor that sends usage once, on the chunk with the finish reason, if the caller wants it.

    Engines send usage later, in a chunk of its own or in an otherwise empty one (OpenRouter). So a chunk that finishes a choice is
    held back, and so is everything behind it, until a choice continues that has not finished. `finish_reason` is that of the first
    choice. A second finish of the same choice is dropped.
    `normalize_choices` converts the choices of a chunk to what the dialect promises. It is called once per chunk, in order, and
    returns the same object if nothing has to change.
    """

    _has_deltas = False

    def __init__(self, meta: ResponseMeta, id: str, object: str, normalize_choices: Callable[[bytes], bytes]) -> None:
        super().__init__(meta)
        # By which providers.wire may edit what comes next: feed() would do the same. None: feed() it.
        self.relay_template: ChunkTemplate | None = None
        self._id = id
        self._object = object
        self._normalize_choices = normalize_choices
        self._held_chunks: list[Body] = []
        self._finished: set[int] = set()
        self._raw_usage: Any = None
        self._unlike_chunks = 0
        self._last_template: tuple[bytes, bytes] | None = None
        self._template: ChunkTemplate | None = None
        self._has_content = False

    def feed(self, block: bytes) -> bytes:
        edited = super().feed(block)
        is_over = self.done or self.failure is not None
        self.relay_template = None if is_over or self._held_chunks or not self._keeps_texts() else self._template
        return edited

    def _keeps_texts(self) -> bool:
        """Whether choices that hold nothing but text are sent on unchanged, after all that came before."""
        return True

    def _write_end(self) -> bytes:
        has_usage = self.usage is not None and (self.usage.input or self.usage.output)
        if not self._has_content and not has_usage and self.finish_reason not in ("length", "content_filter"):
            raise InvalidUpstreamResponse("The engine's answer is empty: it has neither content nor calls nor usage.")
        if self._meta.wants_usage:
            if self.usage is None:
                self._raw_usage = write_usage(self._meta.estimate_usage(self.written_tokens))
            self._write_usage()
        return self._release_held() + b"data: [DONE]\n\n"

    def _release_before_failure(self) -> bytes:
        return self._release_held()

    def _write_usage(self) -> None:
        if not self._held_chunks:
            # The finish reason is sent already: usage gets a chunk of its own, as in OpenAI's streams.
            self._held_chunks.append(self._with_meta(Body(choices=[])))
        self._held_chunks[0]["usage"] = self._raw_usage

    def _edit_event(self, data: bytes) -> bytes:
        template = self._template
        if template is not None and not self._held_chunks:
            choices = template.choices(data)
            if choices is not None:
                for text in self.written_texts.findall(data):  # as _count_delta(), of which each chunk would pay the call
                    self.written_bytes += len(text) if b"\\" not in text else unescaped_size(text)
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
        if choices == NULL and usage == NULL:
            return b""  # a ping, or another object that is no chunk
        try:
            heads = [] if choices == NULL else read_heads(choices)
            if usage != NULL:
                self.usage, self._raw_usage = normalize_usage(usage, service_tier)
        except DECODE_ERRORS as decode_error:
            corrected = with_expected_types(data)
            if corrected is data:
                raise _invalid_chunk(decode_error) from None
            return self._edit_decoded(corrected)
        if not heads and usage != NULL:
            for key in (body.keys() - self._held_chunks[0].keys()) if self._held_chunks else ():
                self._held_chunks[0][key] = body[key]
            return b""
        self._count_delta(data)
        odd: list[ChoiceHead] = []
        repeated = self._repeated_finishes(heads) if self._finished else None
        if repeated and len(repeated) == len(heads):
            return b""
        if heads:
            raw = bytes(choices)
            self._has_content = self._has_content or has_content(raw) is not None
            odd = [head for head in heads if head.finish_reason not in UNCHANGED_FINISH_REASONS or head.index is None]
            normalized = self._normalized(normalize_finish_reasons(raw) if odd else raw)
            if repeated:
                body["choices"] = _without_choices(normalized, repeated)
            elif normalized is not raw:
                body["choices"] = Raw(normalized)
                heads = read_heads(normalized)
        finishing, continuing = self._track_choices(heads)
        if finishing and odd and self.finish_reason == "stop":
            self.finish_reason = recorded_finish_reason("stop", odd[0].finish_reason)
        self._with_meta(body)
        if self._held_chunks and not finishing and not continuing:
            self._held_chunks.append(body)
            return b""
        released = self._release_held()
        if finishing:
            self._held_chunks.append(body)
            return released
        # No template before there is content: its chunks are not looked at.
        if self._unlike_chunks < _MAX_UNLIKE_CHUNKS and self._has_content:
            self._learn_template(data, bytes(choices))
        return released + sse_frame(body.write())

    def _edit_chunk_fields(self, body: Body) -> None:
        """Changes fields of a chunk other than its choices. A dialect may change more."""
        if "service_tier" in body and write_service_tier(body.value("service_tier")) is None:
            del body["service_tier"]

    def _track_choices(self, heads: list[ChoiceHead]) -> tuple[bool, bool]:
        """Whether a choice finishes in this chunk, and whether one continues."""
        finishing = continuing = False
        for head in heads:
            index = head.index or 0
            if index in self._finished:
                continue
            if head.error is not NULL:
                check_failure(head.finish_reason, head.error)
            if head.finish_reason:
                finishing = True
                if index == 0 or self.finish_reason is None:
                    self.finish_reason = head.finish_reason
                self._finished.add(index)
            else:
                continuing = True
        return finishing, continuing

    def _repeated_finishes(self, heads: list[ChoiceHead]) -> set[int]:
        """The positions, in the chunk, of choices that finish a second time."""
        return {at for at, head in enumerate(heads) if head.finish_reason and (head.index or 0) in self._finished}

    def _normalized(self, choices: bytes) -> bytes:
        try:
            return self._normalize_choices(choices)
        except DECODE_ERRORS as fault:
            raise _invalid_chunk(fault) from None

    def _learn_template(self, data: bytes, choices: bytes) -> None:
        """Learns the bytes around the choices from two equal chunks in a row.

        Streams whose chunks always differ (OpenAI's obfuscation) never get a template.
        """
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
        # If it is not null, the `choices` that were found belong to a nested object and not to the chunk.
        if body.pop("choices") != NULL or body.has_value("usage") or "x_groq" in body or "error" in body:
            return
        self._unlike_chunks = 0
        body.pop("usage", None)
        if self.written_texts.search(b"".join(around)) is None:  # they would count with each chunk
            prefix = b"data: " + self._with_meta(body).write()[:-1] + b',"choices":'
            self._template = ChunkTemplate(*around, prefix, self._has_deltas)

    def _with_meta(self, body: Body) -> Body:
        meta = self._meta
        if self.model is None:
            self.model = read_model_name(body.get("model"))
        body["id"], body["model"], body["episode_id"] = self._id, meta.model, meta.episode_id
        # Engines have others: text_completion.chunk (mini-sglang), completion.chunk (Together), "" (Azure, in its first chunk).
        body["object"] = self._object
        if "created" not in body:
            body["created"] = meta.created
        elif body["created"] == NULL or bytes(body["created"])[:1] == b'"':
            body["created"] = whole_seconds(body["created"], meta.created)
        return body

    def _release_held(self) -> bytes:
        if not self._held_chunks:
            return b""
        held_chunks, self._held_chunks = self._held_chunks, []
        return b"".join([sse_frame(body.write()) for body in held_chunks])


def _without_choices(choices: bytes, positions: set[int]) -> list[Raw]:
    return [choice for at, choice in enumerate(_raws(choices)) if at not in positions]


def _invalid_chunk(error: Exception) -> InvalidUpstreamResponse:
    return InvalidUpstreamResponse(f"The engine's chunk is not of the shape that its API promises: {error}.")
