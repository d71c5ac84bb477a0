"""The parts that responses of chat, completions and token generation share: id, time and model, and OpenAI's usage."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.sandbox.choices import Choice

FINGERPRINT = "narthex-sandbox"


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """The fields that every chunk of one response repeats. `created` is a Unix time."""

    id: str
    created: int
    model: str


def write_usage(prompt_tokens: int, choices: Sequence[Choice]) -> dict[str, Any]:
    """OpenAI's usage object."""
    completion = sum(choice.count_tokens() for choice in choices)
    reasoning = sum(step.kind == "reasoning" for choice in choices for step in choice.steps)
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion,
        "total_tokens": prompt_tokens + completion,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": reasoning, "audio_tokens": 0},
    }
