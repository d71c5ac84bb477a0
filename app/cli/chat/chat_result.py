"""ChatResult: a response of the gateway, and its form as JSON."""

from typing import Any

from msgspec import Struct

from providers.canonical.chat import Part, Reasoning, Refusal, Text, ToolCall, Usage


class ChatResult(Struct, frozen=True):
    """A response, or as much of it as arrived."""

    inference_id: str | None
    episode_id: str | None
    model: str
    served: str | None  # provider/model
    dropped: tuple[str, ...]
    parts: tuple[Part, ...]
    finish_reason: str | None
    usage: Usage | None
    first_token_s: float | None  # None: it was not streamed
    duration_s: float

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, Text))


def result_document(result: ChatResult) -> dict[str, Any]:
    """Returns the document that `narthex chat --json` prints."""
    usage = result.usage
    return {
        "inference_id": result.inference_id,
        "episode_id": result.episode_id,
        "model": result.model,
        "served": result.served,
        "text": result.text,
        "reasoning": "".join(part.text for part in result.parts if isinstance(part, Reasoning)) or None,
        "refusal": "".join(part.text for part in result.parts if isinstance(part, Refusal)) or None,
        "tool_calls": [
            {"id": part.id, "name": part.name, "arguments": part.arguments} for part in result.parts if isinstance(part, ToolCall)
        ],
        "finish_reason": result.finish_reason,
        "usage": usage
        and {
            "input_tokens": usage.input,
            "output_tokens": usage.output,
            "cached_tokens": usage.cached,
            "reasoning_tokens": usage.reasoning,
        },
        "first_token_s": result.first_token_s,
        "duration_s": result.duration_s,
        "dropped": result.dropped,
    }
