"""Complete responses of /v1/messages from canonical ones.

Source: https://docs.claude.com/en/api/messages, read 2026-11.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from providers.canonical.chat import ChatResponse, Choice, Opaque, Part, Reasoning, Refusal, Text, ToolCall
from providers.canonical.tool_calls import write_arguments
from providers.dialect import ResponseMeta
from providers.dialects.anthropic_messages.citations import write_citation
from providers.dialects.anthropic_messages.finish_reasons import write_choice_stop_reason
from providers.dialects.anthropic_messages.opaque_states import write_call_state, write_opaque, write_reasoning
from providers.dialects.anthropic_messages.usage import write_usage


def write_response(response: ChatResponse, meta: ResponseMeta) -> bytes:
    """A message of the first choice: Messages has no others."""
    choice = response.choices[0] if response.choices else Choice((), None)
    return msgspec.json.encode(
        {
            "id": "msg_" + meta.id,
            "type": "message",
            "role": "assistant",
            "model": meta.model,
            "content": list(_write_blocks(choice.parts)),
            "stop_reason": write_choice_stop_reason(choice),
            "stop_sequence": choice.stop_sequence,
            "usage": write_usage(response.usage, response.service_tier),
        }
    )


def _write_blocks(parts: tuple[Part, ...]) -> Iterator[Any]:
    for part in parts:
        match part:
            case Text():
                yield _text_block(part)
            case Refusal():
                yield {"type": "text", "text": part.text}
            case Reasoning():
                yield write_reasoning(part)
            case ToolCall():
                if part.opaque_state is not None:
                    yield write_call_state(part.id, part.opaque_state)
                yield {
                    "type": "tool_use",
                    "id": part.id,
                    "name": part.name,
                    "input": write_arguments(part.arguments, custom=part.custom),
                }
            case Opaque():
                yield write_opaque(part)


def _text_block(part: Text) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": part.text}
    if part.citations:
        block["citations"] = [write_citation(citation) for citation in part.citations]
    return block
