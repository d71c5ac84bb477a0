"""Usage as OpenAI's chat and completions tell it, read and written: one arithmetic, whichever host counts."""

from operator import attrgetter
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.canonical.chat import Usage
from providers.canonical.raw_json import DECODE_ERRORS, merge_object

# No engine has counted more; and what it costs, at whatever price, stays within a database's 63 bits.
_MAX_TOKENS = 2**40


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
_NO_DETAILS = _Details()
_usage_details = attrgetter(
    *("prompt_tokens_details", "completion_tokens_details", "prompt_cache_hit_tokens", "cached_tokens", "num_cached_tokens"),
    "reasoning_tokens",
)
_NO_USAGE_DETAILS = _usage_details(_Usage())

# Ways of being served that have prices of their own.
_PRICED_TIERS = ("batch", "flex", "priority")


def read_usage(raw: bytes | Raw, service_tier: Any = None) -> Usage | None:
    """Tokens as OpenAI chat reports them; None if they are told in another way: that must not cost a good answer.

    `service_tier`: as the answer tells it, beside its usage.
    Source: https://platform.openai.com/docs/api-reference/chat/object, read 2026-11.
    """
    try:
        return _to_usage(_decoder.decode(raw), service_tier)
    except DECODE_ERRORS:
        return None


def normalize_usage(raw: Raw, service_tier: Any = None) -> tuple[Usage | None, Raw]:
    """See read_usage; and what a caller of the same dialect is told: as it came, but with reasoning within the output.

    And with what was cached, and what was reasoned, under OpenAI's names too, where it came under a host's own alone.
    """
    try:
        reported = _decoder.decode(raw)
    except DECODE_ERRORS:
        return None, raw
    usage = _to_usage(reported, service_tier)
    prompt_details, completion_details = reported.prompt_tokens_details or _NO_DETAILS, reported.completion_tokens_details or _NO_DETAILS
    cached_named = prompt_details.cached_tokens is not None or (not usage.cached and reported.num_cached_tokens is None)
    reasoning_named = not usage.reasoning or completion_details.reasoning_tokens is not None
    if cached_named and reasoning_named and (usage.output == reported.completion_tokens or usage.output is None):
        return usage, raw
    fields: dict[str, Any] = {**_object.decode(raw)}
    if usage.output is not None:
        fields["completion_tokens"] = usage.output
    if not cached_named:
        fields["prompt_tokens_details"] = merge_object(fields.get("prompt_tokens_details"), {"cached_tokens": usage.cached})
    if not reasoning_named:
        fields["completion_tokens_details"] = merge_object(fields.get("completion_tokens_details"), {"reasoning_tokens": usage.reasoning})
    return usage, Raw(msgspec.json.encode(fields))


def _to_usage(reported: _Usage, service_tier: Any) -> Usage:
    input, output = _plausible_count(reported.prompt_tokens), _plausible_count(reported.completion_tokens)
    tier = (
        None if service_tier is None and reported.service_tier is None else priced_tier(service_tier) or priced_tier(reported.service_tier)
    )
    if _usage_details(reported) == _NO_USAGE_DETAILS:  # as most engines tell it
        return Usage(input, output, tier=tier)
    prompt_details, completion_details = reported.prompt_tokens_details or _NO_DETAILS, reported.completion_tokens_details or _NO_DETAILS
    reasoning = _plausible_count(
        reported.reasoning_tokens if completion_details.reasoning_tokens is None else completion_details.reasoning_tokens
    )
    cached = reported.prompt_cache_hit_tokens if prompt_details.cached_tokens is None else prompt_details.cached_tokens
    if reasoning and input is not None and output is not None and reported.total_tokens == input + output + reasoning:
        # xAI counts reasoning beside the output, as its totals tell (/reference/providers.md part 0.3).
        output += reasoning
    return Usage(
        input=input,
        output=output,
        cached=_plausible_count(
            next((each for each in (cached, reported.cached_tokens, reported.num_cached_tokens) if each is not None), None)
        ),
        reasoning=reasoning,
        cache_written=_plausible_count(prompt_details.cache_write_tokens),
        audio_input=_plausible_count(prompt_details.audio_tokens),
        audio_output=_plausible_count(completion_details.audio_tokens),
        image_input=_plausible_count(prompt_details.image_tokens),
        tier=tier,
    )


def priced_tier(service_tier: Any) -> str | None:
    """As Usage.tier has it; None for whatever has no price of its own."""
    return service_tier if service_tier in _PRICED_TIERS else None


def groq_usage(x_groq: bytes | Raw) -> Raw | None:
    """Groq's older streams tell usage under `x_groq` of their last chunk."""
    try:
        usage = _groq.decode(x_groq).usage
    except DECODE_ERRORS:
        return None
    return None if usage == Raw(b"null") else usage


def _plausible_count(count: int | None) -> int | None:
    return count if count is not None and 0 <= count <= _MAX_TOKENS else None


def write_usage(usage: Usage) -> dict[str, Any]:
    """What was not reported is not said; the total is told where both of its terms are."""
    body: dict[str, Any] = {"prompt_tokens": usage.input, "completion_tokens": usage.output}
    if usage.input is not None and usage.output is not None:
        body["total_tokens"] = usage.input + usage.output
    prompt_details = {
        "cached_tokens": usage.cached,
        "cache_write_tokens": usage.cache_written,
        "audio_tokens": usage.audio_input,
        "image_tokens": usage.image_input,
    }
    made = {"reasoning_tokens": usage.reasoning, "audio_tokens": usage.audio_output}
    for key, parts in (("prompt_tokens_details", prompt_details), ("completion_tokens_details", made)):
        reported = {part: count for part, count in parts.items() if count is not None}
        if reported:
            body[key] = reported
    return {key: value for key, value in body.items() if value is not None}
