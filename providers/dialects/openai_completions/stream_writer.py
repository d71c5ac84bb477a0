"""Writes events as a stream of completion chunks. Only text is written."""

from typing import Any

import msgspec

from providers.canonical.chat import Text, Usage
from providers.canonical.errors import NarthexError
from providers.canonical.events import ChoiceFinished, Event, Logprobs, PartDelta, PartFinished, PartStarted, ResponseStarted, UsageReported
from providers.canonical.sse import sse_frame
from providers.dialect import ResponseMeta
from providers.dialects.openai.service_tiers import write_service_tier
from providers.dialects.openai.usage import write_usage
from providers.dialects.openai_completions.finish_reasons import write_finish_reason
from providers.dialects.openai_completions.logprobs import write_logprobs
from providers.dialects.openai_completions.write_response import response_head

_encode = msgspec.json.encode


class CompletionStreamWriter:
    """A stream writer of completions. Usage is on the chunk that finishes the last choice."""

    def __init__(self, meta: ResponseMeta) -> None:
        self._chunk_head = response_head(meta, None)
        self._wants_usage = meta.wants_usage
        self._text_parts: set[tuple[int, int]] = set()
        self._delta_templates: dict[int, tuple[bytes, bytes]] = {}
        self._lengths: dict[int, int] = {}
        self._held_chunk: dict[str, Any] | None = None
        self._usage: Usage | None = None

    def feed(self, event: Event) -> bytes:
        match event:
            case PartDelta():
                return self._write_text(event.choice, event.text) if (event.choice, event.index) in self._text_parts else b""
            case PartStarted():
                if not isinstance(event.part, Text):
                    return b""
                self._text_parts.add((event.choice, event.index))
                return self._write_text(event.choice, event.part.text) if event.part.text else b""
            case ResponseStarted():
                self._chunk_head["created"] = event.created or self._chunk_head["created"]
                if event.system_fingerprint is not None:
                    self._chunk_head["system_fingerprint"] = event.system_fingerprint
                service_tier = write_service_tier(event.service_tier)
                if service_tier is not None:
                    self._chunk_head["service_tier"] = service_tier
                return b""
            case Logprobs():
                logprobs = write_logprobs(event.entries, self._lengths.get(event.choice, 0))
                self._lengths[event.choice] = self._lengths.get(event.choice, 0) + sum(map(len, logprobs["tokens"]))
                return self._release() + sse_frame(_encode(self._body(event.choice, "", logprobs=logprobs)))
            case ChoiceFinished():
                released = self._release()
                self._held_chunk = self._body(event.choice, "", **write_finish_reason(event.reason, event.stop_sequence))
                return released
            case UsageReported():
                self._usage = event.usage
                return b""
            case PartFinished():
                return b""

    def finish(self) -> bytes:
        if self._usage is not None and self._wants_usage:
            self._held_chunk = self._held_chunk or {**self._chunk_head, "choices": []}
            self._held_chunk["usage"] = write_usage(self._usage)
        return self._release() + b"data: [DONE]\n\n"

    def write_failure(self, error: NarthexError) -> bytes:
        return b""

    def _write_text(self, choice: int, text: str) -> bytes:
        template = self._delta_templates.get(choice)
        if template is None:
            prefix, _, suffix = sse_frame(_encode(self._body(choice, _PLACEHOLDER))).rpartition(_encode(_PLACEHOLDER))
            template = self._delta_templates[choice] = prefix, suffix
        data = template[0] + _encode(text) + template[1]
        return data if self._held_chunk is None else self._release() + data

    def _body(self, choice: int, text: str, finish_reason: str | None = None, logprobs: Any = None, **fields: Any) -> dict[str, Any]:
        written = {"index": choice, "text": text, "logprobs": logprobs, "finish_reason": finish_reason, **fields}
        return {**self._chunk_head, "choices": [written]}

    def _release(self) -> bytes:
        chunk, self._held_chunk = self._held_chunk, None
        return b"" if chunk is None else sse_frame(_encode(chunk))


# Stands for the text in a chunk that is encoded before the text is known. Nothing behind it in a chunk contains it.
_PLACEHOLDER = "\x00"
