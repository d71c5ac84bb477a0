"""A request for a completion as meaning and back: a text to go on with, and how.

What a completion alone knows (several prompts, token ids, suffix, echo) has no meaning elsewhere: it goes to engines as it is, or not.
Source: https://platform.openai.com/docs/api-reference/completions/create, read 2026-11.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from providers import guided
from providers.chat import ENGINE_WORDS, ChatRequest
from providers.dialect import Concessions
from providers.errors import Unsupported
from providers.wire import Body

NAME = "openai_completions"

WORDS: Mapping[str, str] = {"output": "structured_outputs", "top_logprobs": "logprobs"}

_PLAIN = (
    *("max_tokens", "temperature", "top_p", "top_k", "seed", "n", "frequency_penalty", "presence_penalty"),
    *("user", "metadata"),
)
_NOT_EXTRA = frozenset(
    {
        *("model", "prompt", "stream", "stream_options", "stop", "logprobs", "logit_bias"),
        *("episode_id", "tensorzero::episode_id", "tensorzero::tags"),
        *_PLAIN,
        *guided.WORDS,
    }
)
# Fields of a chat that say nothing where they have these values.
_NO_DEMAND = (None, (), False)


def read_request(body: Body) -> ChatRequest:
    """Raises Unsupported for prompts that are no single text."""
    logprobs = body.value("logprobs")
    return ChatRequest(
        origin=NAME,
        model=body.value("model"),
        prompt=_read_prompt(body.value("prompt")),
        output=guided.read_output(body),
        stop=_read_stop(body.value("stop")),
        logprobs=None if logprobs is None else True,
        top_logprobs=logprobs,
        logit_bias=_raw(body["logit_bias"]) if body.said("logit_bias") else None,
        extra={key: _raw(value) for key, value in body.items() if key not in _NOT_EXTRA and body.said(key)},
        **{key: body.value(key) for key in _PLAIN},
    )


def _read_prompt(prompt: Any) -> str:
    match prompt:
        case str():
            return prompt
        case [str(only)]:
            return only
        case _:
            raise Unsupported("Several prompts, or token ids, can go only to an engine with an API for completions.", param="prompt")


def _read_stop(said: str | list[str] | None) -> tuple[str, ...]:
    return (said,) if isinstance(said, str) else tuple(said or ())


def _raw(value: Any) -> Raw:
    return value if isinstance(value, Raw) else Raw(msgspec.json.encode(value))


def write_request(chat: ChatRequest, concessions: Concessions) -> Body:
    """Raises Unsupported for messages: a completion knows a raw prompt alone."""
    if chat.prompt is None:
        raise Unsupported("Messages cannot be asked of an API for completions: it takes a raw prompt.", param="messages")
    for field in ("tools", "tool_choice", "parallel_calls", "thinking", "verbosity"):
        if getattr(chat, field) not in _NO_DEMAND:
            concessions.without(field, "a completion has no such field.")
    for field in ("safety_identifier", "service_tier", "store", "cache_key"):
        if getattr(chat, field) is not None:
            concessions.hint(field)
    body = Body(model=chat.model, prompt=chat.prompt)
    for field in _PLAIN:
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
        body.update(guided.as_structured_outputs(chat.output))
    for key, value in chat.extra.items():
        if chat.origin == NAME or key in ENGINE_WORDS:
            body[key] = value
        else:
            concessions.extra(key, value, "a completion has no such field.")
    return body
