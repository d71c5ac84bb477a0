"""Writes a complete completion. It holds only text: other parts of a response are dropped.

Source: https://platform.openai.com/docs/api-reference/completions/object, read 2026-11.
"""

from typing import Any

import msgspec

from providers.canonical.chat import ChatResponse, Choice, Text
from providers.dialect import ResponseMeta
from providers.dialects.openai.service_tiers import write_service_tier
from providers.dialects.openai.usage import write_usage
from providers.dialects.openai_completions.finish_reasons import write_finish_reason
from providers.dialects.openai_completions.logprobs import write_logprobs

_encode = msgspec.json.encode


def response_head(meta: ResponseMeta, created: int | None) -> dict[str, Any]:
    return {
        "id": f"cmpl-{meta.id}",
        "object": "text_completion",
        "created": created or meta.created,
        "model": meta.model,
        "episode_id": meta.episode_id,
    }


def write_response(response: ChatResponse, meta: ResponseMeta) -> bytes:
    body = {
        **response_head(meta, response.created),
        "choices": [_write_choice(index, choice) for index, choice in enumerate(response.choices)],
    }
    if response.system_fingerprint is not None:
        body["system_fingerprint"] = response.system_fingerprint
    service_tier = write_service_tier(response.service_tier)
    if service_tier is not None:
        body["service_tier"] = service_tier
    if response.usage is not None:
        body["usage"] = write_usage(response.usage)
    return _encode(body)


def _write_choice(index: int, choice: Choice) -> dict[str, Any]:
    text = "".join(part.text for part in choice.parts if isinstance(part, Text))
    logprobs = None if choice.logprobs is None else write_logprobs(choice.logprobs, 0)
    return {"index": index, "text": text, "logprobs": logprobs, **write_finish_reason(choice.finish_reason, choice.stop_sequence)}
