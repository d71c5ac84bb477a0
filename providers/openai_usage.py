"""Usage as OpenAI's chat and completions tell it, read and written: one arithmetic, whichever host counts."""

from operator import attrgetter
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.chat import Usage
from providers.wire import UNREADABLE, merged

# No engine has counted more; and what it costs, at whatever price, stays within a database's 63 bits.
_MOST_TOKENS = 2**40


class _Details(Struct):
    """`cache_write_tokens`: OpenAI's newer models and OpenRouter tell it, whose caches are paid for when they are written."""

    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    audio_tokens: int | None = None
    image_tokens: int | None = None


class _Usage(Struct):
    """`prompt_cache_hit_tokens` is DeepSeek's word, `cached_tokens` at this level Together's, `reasoning_tokens` SGLang's and Perplexity's.

    `service_tier` within usage is Mistral's, and so was `num_cached_tokens` until 2026.
    """

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None
    prompt_cache_hit_tokens: int | None = None
    cached_tokens: int | None = None
    num_cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    service_tier: str | None = None


class _Groq(Struct):
    usage: Raw = Raw(b"null")


_decoder = msgspec.json.Decoder(_Usage)
_object = msgspec.json.Decoder(dict[str, Raw])
_groq = msgspec.json.Decoder(_Groq)
_NOTHING = _Details()
_parts_of = attrgetter(
    *("prompt_tokens_details", "completion_tokens_details", "prompt_cache_hit_tokens", "cached_tokens", "num_cached_tokens"),
    "reasoning_tokens",
)
_NO_PARTS = _parts_of(_Usage())

# Ways of being served that have prices of their own.
_TIERS = ("batch", "flex", "priority")


def read_usage(raw: bytes | Raw, service_tier: Any = None) -> Usage | None:
    """Tokens as OpenAI chat reports them; None if they are told in another way: that must not cost a good answer.

    `service_tier`: as the answer tells it, beside its usage.
    Source: https://platform.openai.com/docs/api-reference/chat/object, read 2026-11.
    """
    try:
        return _read(_decoder.decode(raw), service_tier)
    except UNREADABLE:
        return None


def told_usage(raw: Raw, service_tier: Any = None) -> tuple[Usage | None, Raw]:
    """See read_usage; and what a caller of the same dialect is told: as it came, but with reasoning within the output.

    And with what was cached, and what was reasoned, under OpenAI's names too, where it came under a host's own alone.
    """
    try:
        told = _decoder.decode(raw)
    except UNREADABLE:
        return None, raw
    usage = _read(told, service_tier)
    asked, made = told.prompt_tokens_details or _NOTHING, told.completion_tokens_details or _NOTHING
    cached_named = asked.cached_tokens is not None or (not usage.cached and told.num_cached_tokens is None)
    reasoning_named = not usage.reasoning or made.reasoning_tokens is not None
    if cached_named and reasoning_named and (usage.output == told.completion_tokens or usage.output is None):
        return usage, raw
    kept: dict[str, Any] = {**_object.decode(raw)}
    if usage.output is not None:
        kept["completion_tokens"] = usage.output
    if not cached_named:
        kept["prompt_tokens_details"] = merged(kept.get("prompt_tokens_details"), {"cached_tokens": usage.cached})
    if not reasoning_named:
        kept["completion_tokens_details"] = merged(kept.get("completion_tokens_details"), {"reasoning_tokens": usage.reasoning})
    return usage, Raw(msgspec.json.encode(kept))


def _read(told: _Usage, service_tier: Any) -> Usage:
    input, output = _possible(told.prompt_tokens), _possible(told.completion_tokens)
    tier = None if service_tier is None and told.service_tier is None else priced_tier(service_tier) or priced_tier(told.service_tier)
    if _parts_of(told) == _NO_PARTS:  # as most engines tell it
        return Usage(input, output, tier=tier)
    asked, made = told.prompt_tokens_details or _NOTHING, told.completion_tokens_details or _NOTHING
    reasoning = _possible(told.reasoning_tokens if made.reasoning_tokens is None else made.reasoning_tokens)
    cached = told.prompt_cache_hit_tokens if asked.cached_tokens is None else asked.cached_tokens
    if reasoning and input is not None and output is not None and told.total_tokens == input + output + reasoning:
        # xAI counts reasoning beside the output, as its totals tell (/reference/providers.md part 0.3).
        output += reasoning
    return Usage(
        input=input,
        output=output,
        cached=_possible(next((each for each in (cached, told.cached_tokens, told.num_cached_tokens) if each is not None), None)),
        reasoning=reasoning,
        cache_written=_possible(asked.cache_write_tokens),
        audio_input=_possible(asked.audio_tokens),
        audio_output=_possible(made.audio_tokens),
        image_input=_possible(asked.image_tokens),
        tier=tier,
    )


def priced_tier(told: Any) -> str | None:
    """As Usage.tier has it; None for whatever has no price of its own."""
    return told if told in _TIERS else None


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
    asked = {
        "cached_tokens": usage.cached,
        "cache_write_tokens": usage.cache_written,
        "audio_tokens": usage.audio_input,
        "image_tokens": usage.image_input,
    }
    made = {"reasoning_tokens": usage.reasoning, "audio_tokens": usage.audio_output}
    for key, parts in (("prompt_tokens_details", asked), ("completion_tokens_details", made)):
        told = {part: count for part, count in parts.items() if count is not None}
        if told:
            body[key] = told
    return {key: value for key, value in body.items() if value is not None}
