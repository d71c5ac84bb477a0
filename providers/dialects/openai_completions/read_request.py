"""A request for a completion as meaning and back: a text to go on with, and how.

What a completion alone knows (several prompts, token ids, suffix, echo) has no meaning elsewhere: it goes to engines as it is, or not.
Source: https://platform.openai.com/docs/api-reference/completions/create, read 2026-11.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from providers import structured_output
from providers.canonical.chat import ENGINE_FIELDS, ChatRequest
from providers.canonical.errors import Unsupported
from providers.canonical.raw_json import Body
from providers.dialect import DropPolicy

DIALECT = "openai_completions"

FIELD_NAMES: Mapping[str, str] = {"output": "structured_outputs", "top_logprobs": "logprobs"}

_SAME_FIELDS = (
    *("max_tokens", "temperature", "top_p", "top_k", "seed", "n", "frequency_penalty", "presence_penalty"),
    *("user", "metadata"),
)
_NOT_EXTRA = frozenset(
    {
        *("model", "prompt", "stream", "stream_options", "stop", "logprobs", "logit_bias"),
        *("episode_id", "tensorzero::episode_id", "tensorzero::tags"),
        *_SAME_FIELDS,
        *structured_output.CONSTRAINT_FIELDS,
    }
)
# Fields of a chat that say nothing where they have these values.
_NEUTRAL_VALUES = (None, (), False)


def read_request(body: Body) -> ChatRequest:
    """Raises Unsupported for prompts that are no single text."""
    logprobs = body.value("logprobs")
    return ChatRequest(
        origin=DIALECT,
        model=body.value("model"),
        prompt=_read_prompt(body.value("prompt")),
        output=structured_output.read_output_format(body),
        stop=_read_stop(body.value("stop")),
        logprobs=None if logprobs is None else True,
        top_logprobs=logprobs,
        logit_bias=_as_raw(body["logit_bias"]) if body.has_value("logit_bias") else None,
        extra={key: _as_raw(value) for key, value in body.items() if key not in _NOT_EXTRA and body.has_value(key)},
        **{key: body.value(key) for key in _SAME_FIELDS},
    )


def _read_prompt(prompt: Any) -> str:
    match prompt:
        case str():
            return prompt
        case [str(only)]:
            return only
        case _:
            raise Unsupported("Several prompts, or token ids, can go only to an engine with an API for completions.", param="prompt")


def _read_stop(stop: str | list[str] | None) -> tuple[str, ...]:
    return (stop,) if isinstance(stop, str) else tuple(stop or ())


def _as_raw(value: Any) -> Raw:
    return value if isinstance(value, Raw) else Raw(msgspec.json.encode(value))


def write_request(chat: ChatRequest, drop_policy: DropPolicy) -> Body:
    """Raises Unsupported for messages: a completion knows a raw prompt alone."""
    if chat.prompt is None:
        raise Unsupported("Messages cannot be asked of an API for completions: it takes a raw prompt.", param="messages")
    for field in ("tools", "tool_choice", "parallel_calls", "thinking", "verbosity"):
        if getattr(chat, field) not in _NEUTRAL_VALUES:
            drop_policy.drop_or_refuse(field, "a completion has no such field.")
    for field in ("safety_identifier", "service_tier", "store", "cache_key"):
        if getattr(chat, field) is not None:
            drop_policy.drop_hint(field)
    body = Body(model=chat.model, prompt=chat.prompt)
    for field in _SAME_FIELDS:
        value = getattr(chat, field)
        if value is not None:
            body[field] = value
    if chat.stop:
        body["stop"] = list(chat.stop)
    if chat.logprobs:
        body["logprobs"] = chat.top_logprobs or 0
    if chat.logit_bias is not None:
        body["logit_bias"] = chat.logit_bias
    if chat.output is not None:
        body.update(structured_output.write_structured_outputs(chat.output))
    for key, value in chat.extra.items():
        if chat.origin == DIALECT or key in ENGINE_FIELDS:
            body[key] = value
        else:
            drop_policy.drop_extra_field(key, value, "a completion has no such field.")
    return body
