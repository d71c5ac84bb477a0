"""Usage as OpenAI's chat and completions tell it, read and written."""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.chat import Usage
from providers.wire import UNREADABLE

# No engine has counted more; and what it costs, at whatever price, stays within a database's 63 bits.
_MOST_TOKENS = 2**40


class _Details(Struct):
    """`cache_write_tokens`: OpenAI's newer models and OpenRouter tell it, whose caches are paid for when they are written."""

    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Usage(Struct):
    """`prompt_cache_hit_tokens` is DeepSeek's word, `reasoning_tokens` at this level SGLang's."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None
    prompt_cache_hit_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Groq(Struct):
    usage: Raw = Raw(b"null")


_decoder = msgspec.json.Decoder(_Usage)
_groq = msgspec.json.Decoder(_Groq)
_NOTHING = _Details()


def read_usage(raw: bytes | Raw) -> Usage | None:
    """Tokens as OpenAI chat reports them; None if they are told in another way: that must not cost a good answer.

    Source: https://platform.openai.com/docs/api-reference/chat/object, read 2026-11.
    """
    try:
        told = _decoder.decode(raw)
    except UNREADABLE:
        return None
    asked, made = told.prompt_tokens_details or _NOTHING, told.completion_tokens_details or _NOTHING
    return Usage(
        input=_possible(told.prompt_tokens),
        output=_possible(told.completion_tokens),
        cached=_possible(told.prompt_cache_hit_tokens if asked.cached_tokens is None else asked.cached_tokens),
        reasoning=_possible(told.reasoning_tokens if made.reasoning_tokens is None else made.reasoning_tokens),
        cache_written=_possible(asked.cache_write_tokens),
    )


def groq_usage(x_groq: bytes | Raw) -> Raw | None:
    """Groq's older streams tell usage under `x_groq` of their last chunk."""
    try:
        told = _groq.decode(x_groq).usage
    except UNREADABLE:
        return None
    return None if told == Raw(b"null") else told


def _possible(count: int | None) -> int | None:
    return count if count is not None and 0 <= count <= _MOST_TOKENS else None


def write_usage(usage: Usage) -> dict[str, Any]:
    """What was not reported is not said; the total is told where both of its terms are."""
    body: dict[str, Any] = {"prompt_tokens": usage.input, "completion_tokens": usage.output}
    if usage.input is not None and usage.output is not None:
        body["total_tokens"] = usage.input + usage.output
    asked = {"cached_tokens": usage.cached, "cache_write_tokens": usage.cache_written}
    if usage.cached is not None or usage.cache_written is not None:
        body["prompt_tokens_details"] = {key: value for key, value in asked.items() if value is not None}
    if usage.reasoning is not None:
        body["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning}
    return {key: value for key, value in body.items() if value is not None}
