"""Complete responses of generateContent from canonical ones.

Source: https://ai.google.dev/api/generate-content#GenerateContentResponse, read 2026-11.
"""

from typing import Any

import msgspec

from providers.canonical.chat import ChatResponse, Choice, Refusal, Text
from providers.dialect import ResponseMeta
from providers.dialects.gemini.finish_reasons import write_finish_reason
from providers.dialects.gemini.response_head import includes_thoughts, response_tail
from providers.dialects.gemini.usage import write_usage
from providers.dialects.gemini.write_parts import Grounding, PartsWriter, WrittenPart, write_logprobs


def write_response(response: ChatResponse, meta: ResponseMeta) -> bytes:
    with_thoughts = includes_thoughts(meta.request_body)
    choices = response.choices or (Choice((), None),)
    body: dict[str, Any] = {
        "candidates": [_write_candidate(choice, index, with_thoughts=with_thoughts) for index, choice in enumerate(choices)]
    }
    if response.usage is not None:
        body["usageMetadata"] = write_usage(response.usage)
    return msgspec.json.encode({**body, **response_tail(meta)})


def _write_candidate(choice: Choice, index: int, *, with_thoughts: bool) -> dict[str, Any]:
    writer, grounding = PartsWriter(includes_thoughts=with_thoughts), Grounding()
    parts: list[WrittenPart] = []
    for part in choice.parts:
        if isinstance(part, Text) and part.citations:
            grounding.add(part.text, len(parts), part.citations)
        parts += writer.write(part)
    reason = write_finish_reason(
        choice.finish_reason,
        choice.upstream_finish_reason,
        has_refusal=any(isinstance(part, Refusal) for part in choice.parts),
    )
    candidate: dict[str, Any] = {"content": {"parts": parts or [{"text": ""}], "role": "model"}}
    if reason is not None:
        candidate["finishReason"] = reason
    candidate["index"] = index
    candidate.update(grounding.write())
    if choice.logprobs is not None:
        candidate["logprobsResult"] = write_logprobs(choice.logprobs)
    return candidate
