"""Reads a completion request: a text to continue, and how.

What only completions have (several prompts, token ids, suffix, echo) cannot be translated: engines of this dialect receive it
unchanged, all others refuse it.
Source: https://platform.openai.com/docs/api-reference/completions/create, read 2026-11.
"""

from collections.abc import Mapping
from typing import Any

from providers import structured_output
from providers.canonical.chat import ChatRequest
from providers.canonical.errors import Unsupported
from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import Body
from providers.dialects.openai.stop_sequences import read_stop
from providers.dialects.openai_completions.dialect_name import DIALECT

FIELD_NAMES: Mapping[str, str] = {"output": "structured_outputs", "top_logprobs": "logprobs"}

SAME_FIELDS = (
    *("max_tokens", "temperature", "top_p", "top_k", "seed", "n", "frequency_penalty", "presence_penalty"),
    *("user", "metadata"),
)
_NOT_EXTRA = frozenset(
    {
        *("model", "prompt", "stream", "stream_options", "stop", "logprobs", "logit_bias"),
        *("episode_id", "tensorzero::episode_id", "tensorzero::tags"),
        *SAME_FIELDS,
        *structured_output.CONSTRAINT_FIELDS,
    }
)


def read_request(body: Body) -> ChatRequest:
    """The canonical request. Raises Unsupported for a prompt that is not one text."""
    logprobs = body.value("logprobs")
    return ChatRequest(
        origin=DIALECT,
        model=body.value("model"),
        prompt=_read_prompt(body.value("prompt")),
        output=structured_output.read_output_format(body),
        stop=read_stop(body.value("stop")),
        logprobs=None if logprobs is None else True,
        top_logprobs=logprobs,
        logit_bias=as_raw(body["logit_bias"]) if body.has_value("logit_bias") else None,
        extra={key: as_raw(value) for key, value in body.items() if key not in _NOT_EXTRA and body.has_value(key)},
        **{key: body.value(key) for key in SAME_FIELDS},
    )


def _read_prompt(prompt: Any) -> str:
    match prompt:
        case str():
            return prompt
        case [str(only)]:
            return only
        case _:
            raise Unsupported("Several prompts, or token ids, can go only to an engine with an API for completions.", param="prompt")
