"""Usage as OpenAI's chat and completions report it, read and written: one arithmetic for all hosts."""

from operator import attrgetter
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.canonical.chat import Usage
from providers.canonical.host_costs import read_host_cost
from providers.canonical.loose_types import with_expected_types
from providers.canonical.raw_json import DECODE_ERRORS, NULL, merge_object
from providers.canonical.token_counts import is_uncounted, plausible_count
from providers.dialects.openai.tool_uses import read_tool_uses


class _Details(Struct):
    """The parts of a number of tokens."""

    cached_tokens: int | None = None
    cache_write_tokens: int | None = None  # reported by OpenAI's newer models and by OpenRouter, which charge for writing to the cache
    reasoning_tokens: int | None = None
    audio_tokens: int | None = None
    image_tokens: int | None = None


class _Usage(Struct):
    """Usage as hosts report it: `prompt_cache_hit_tokens` is DeepSeek's field, `cached_tokens` at this level Together's.

    `reasoning_tokens` at this level is SGLang's and Perplexity's. `service_tier` is Mistral's, and so was `num_cached_tokens` until 2026.
    `search_context_size` and `num_search_queries` are Perplexity's, `server_tool_use` (and `..._details`, its newer name) OpenRouter's, and
    `server_side_tool_usage_details` xAI's.
    The fields of costs are OpenRouter's, Perplexity's (`cost`, an object) and xAI's (`cost_in_usd_ticks`).
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
    cost: Raw = NULL
    cost_in_usd_ticks: Raw = NULL
    cost_details: Raw = NULL
    is_byok: Raw = NULL
    search_context_size: Raw = NULL
    num_search_queries: Raw = NULL
    server_tool_use: Raw = NULL
    server_tool_use_details: Raw = NULL
    server_side_tool_usage_details: Raw = NULL


class _Groq(Struct):
    usage: Raw = Raw(b"null")


_usage_decoder = msgspec.json.Decoder(_Usage)
_object_decoder = msgspec.json.Decoder(dict[str, Raw])
_groq_decoder = msgspec.json.Decoder(_Groq)
_NO_DETAILS = _Details()
_TRUE = Raw(b"true")
_usage_details = attrgetter(
    *("prompt_tokens_details", "completion_tokens_details", "prompt_cache_hit_tokens", "cached_tokens", "num_cached_tokens"),
    *("reasoning_tokens", "cost", "cost_in_usd_ticks", "search_context_size", "num_search_queries"),
    *("server_tool_use", "server_tool_use_details", "server_side_tool_usage_details"),
)
_NO_USAGE_DETAILS = _usage_details(_Usage())

# Service tiers with prices of their own.
_PRICED_TIERS = ("batch", "flex", "priority", "ultrafast")


def read_usage(raw: bytes | Raw, service_tier: Any = None) -> Usage | None:
    """Tokens as OpenAI chat reports them. None for usage of another form, or without legible counts: that must not cost a good response.

    `service_tier` is that of the response, a field beside its usage.
    Source: https://platform.openai.com/docs/api-reference/chat/object, read 2026-11.
    """
    try:
        return _to_usage(_usage_decoder.decode(raw), service_tier)
    except DECODE_ERRORS:
        return normalize_usage(Raw(bytes(raw)), service_tier)[0]


def normalize_usage(raw: Raw, service_tier: Any = None) -> tuple[Usage | None, Raw]:
    """The usage (see read_usage) and the JSON for a caller of the same dialect.

    The JSON is unchanged except that output tokens include reasoning, and that cached and reasoning tokens which came only under a
    host's own names are added under OpenAI's names.
    """
    try:
        reported = _usage_decoder.decode(raw)
    except DECODE_ERRORS:
        raw = Raw(with_expected_types(bytes(raw)))  # counts as strings, or with a fraction
        try:
            reported = _usage_decoder.decode(raw)
        except DECODE_ERRORS:
            return None, raw
    usage = _to_usage(reported, service_tier)
    if usage is None:
        return None, raw
    prompt_details, completion_details = reported.prompt_tokens_details or _NO_DETAILS, reported.completion_tokens_details or _NO_DETAILS
    cached_named = prompt_details.cached_tokens is not None or (not usage.cached and reported.num_cached_tokens is None)
    reasoning_named = not usage.reasoning or completion_details.reasoning_tokens is not None
    if cached_named and reasoning_named and (usage.output == reported.completion_tokens or usage.output is None):
        return usage, raw
    fields: dict[str, Any] = {**_object_decoder.decode(raw)}
    if usage.output is not None:
        fields["completion_tokens"] = usage.output
    if not cached_named:
        fields["prompt_tokens_details"] = merge_object(fields.get("prompt_tokens_details"), {"cached_tokens": usage.cached})
    if not reasoning_named:
        fields["completion_tokens_details"] = merge_object(fields.get("completion_tokens_details"), {"reasoning_tokens": usage.reasoning})
    return usage, Raw(msgspec.json.encode(fields))


def _to_usage(reported: _Usage, service_tier: Any) -> Usage | None:
    input, output = plausible_count(reported.prompt_tokens), plausible_count(reported.completion_tokens)
    tier = (
        None if service_tier is None and reported.service_tier is None else priced_tier(service_tier) or priced_tier(reported.service_tier)
    )
    if _usage_details(reported) == _NO_USAGE_DETAILS:  # as most engines report it
        return None if input is None and output is None else Usage(input, output, tier=tier)
    prompt_details, completion_details = reported.prompt_tokens_details or _NO_DETAILS, reported.completion_tokens_details or _NO_DETAILS
    reasoning = plausible_count(
        reported.reasoning_tokens if completion_details.reasoning_tokens is None else completion_details.reasoning_tokens
    )
    cached = reported.prompt_cache_hit_tokens if prompt_details.cached_tokens is None else prompt_details.cached_tokens
    if reasoning and input is not None and output is not None and reported.total_tokens == input + output + reasoning:
        # xAI counts reasoning in addition to the output, as its totals show (docs/sources.md#xai).
        output += reasoning
    usage = Usage(
        input=input,
        output=output,
        cached=plausible_count(
            next((each for each in (cached, reported.cached_tokens, reported.num_cached_tokens) if each is not None), None)
        ),
        reasoning=reasoning,
        cache_written=plausible_count(prompt_details.cache_write_tokens),
        audio_input=plausible_count(prompt_details.audio_tokens),
        audio_output=plausible_count(completion_details.audio_tokens),
        image_input=plausible_count(prompt_details.image_tokens),
        tier=tier,
        host_cost_microusd=read_host_cost(
            reported.cost, reported.cost_in_usd_ticks, reported.cost_details, is_byok=reported.is_byok == _TRUE
        ),
        tool_uses=read_tool_uses(
            reported.search_context_size,
            reported.num_search_queries,
            (reported.server_tool_use, reported.server_tool_use_details, reported.server_side_tool_usage_details),
        ),
    )
    return None if is_uncounted(usage) else usage


def priced_tier(service_tier: Any) -> str | None:
    """The tier as Usage.tier holds it; None for a tier without prices of its own. `fast` is OpenAI's other name of `priority`."""
    if service_tier == "fast":
        return "priority"
    return service_tier if service_tier in _PRICED_TIERS else None


def groq_usage(x_groq: bytes | Raw) -> Raw | None:
    """The usage that Groq's older streams report in `x_groq` of their last chunk; None if there is none."""
    try:
        usage = _groq_decoder.decode(x_groq).usage
    except DECODE_ERRORS:
        return None
    return None if usage == Raw(b"null") else usage


def write_usage(usage: Usage) -> dict[str, Any]:
    """Usage as OpenAI reports it. Input and output that were not reported are 0, as the SDKs' types require both; details are left out.

    Beyond OpenAI's fields, `estimated` says that the gateway counted.
    """
    input, output = usage.input or 0, usage.output or 0
    body: dict[str, Any] = {"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output}
    prompt_details = {
        "cached_tokens": usage.cached,
        "cache_write_tokens": usage.cache_written,
        "audio_tokens": usage.audio_input,
        "image_tokens": usage.image_input,
    }
    completion_details = {"reasoning_tokens": usage.reasoning, "audio_tokens": usage.audio_output}
    for key, parts in (("prompt_tokens_details", prompt_details), ("completion_tokens_details", completion_details)):
        reported = {part: count for part, count in parts.items() if count is not None}
        if reported:
            body[key] = reported
    if usage.estimated:
        body["estimated"] = True
    return body
