"""Token counts and service tiers of Messages.

Source: https://docs.claude.com/en/api/messages, read 2026-11; for `iterations` the types of anthropic 2.14.0 (BetaUsage). What runs of
models beyond the response's own turn cost (compaction, the advisor) is not in the totals of `usage`, and billed all the same.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import asdict, replace

from providers.canonical.chat import Iteration, Usage
from providers.canonical.loose_types import with_expected_types
from providers.canonical.raw_json import DECODE_ERRORS, NULL
from providers.canonical.token_counts import is_uncounted, plausible_count
from providers.canonical.tool_uses import WEB_SEARCH, count_uses
from providers.canonical.usage_sums import sum_usage

# The service tier of a response, in OpenAI's names.
_TIERS: Mapping[str, str] = {"standard": "default", "priority": "priority"}
_NATIVE_TIERS: Mapping[str | None, str] = {openai_tier: tier for tier, openai_tier in _TIERS.items()}
_KNOWN_TIERS = (NULL, Raw(b'"standard"'), Raw(b'"priority"'), Raw(b'"batch"'))
# Service tiers with their own price.
_PRICED_TIERS = ("batch", "priority")


_MAX_REGION_CHARS = 100


class _OutputDetails(Struct):
    thinking_tokens: int | None = None


class _CacheCreation(Struct):
    """Tokens written to the cache, by how long they are kept."""

    ephemeral_1h_input_tokens: int | None = None
    ephemeral_5m_input_tokens: int | None = None


class _ServerToolUse(Struct):
    """How often the host used its own tools. Its `web_fetch_requests` cost nothing beyond their tokens."""

    web_search_requests: int | None = None


class _Iteration(Struct):
    """An entry of `iterations`."""

    type: str = ""  # message, compaction, advisor_message or fallback_message
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_creation: _CacheCreation | None = None


class Counts(Struct):
    """The `usage` of a response, or of one event of a stream: a total so far.

    What is rare is decoded only when it is there: another shape of it must not cost the counts.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens_details: _OutputDetails | None = None
    service_tier: str | None = None
    cache_creation: _CacheCreation | None = None
    speed: Raw = NULL
    inference_geo: Raw = NULL
    server_tool_use: Raw = NULL
    iterations: Raw = NULL


_counts_decoder = msgspec.json.Decoder(Counts)
_iterations_decoder = msgspec.json.Decoder(list[_Iteration])
_tool_use_decoder = msgspec.json.Decoder(_ServerToolUse)
_text_decoder = msgspec.json.Decoder(str)
_FAST = Raw(b'"fast"')
# Places whose price is that of the table: https://platform.claude.com/docs/en/about-claude/pricing, read 2026-11.
_PLAIN_GEOS = (NULL, Raw(b'"global"'), Raw(b'"not_available"'))
_fields_decoder = msgspec.json.Decoder(dict[str, Raw])


def read_counts(raw: Raw | None) -> Counts | None:
    """Returns None if nothing is reported, or in another shape: that must not cost a good response."""
    if raw is None or raw == NULL:
        return None
    try:
        return _counts_decoder.decode(raw)
    except DECODE_ERRORS:
        try:  # counts as strings, or with a fraction
            return _counts_decoder.decode(with_expected_types(bytes(raw)))
        except DECODE_ERRORS:
            return None


def merge_counts(earlier: Counts | None, newer: Counts | None) -> Counts | None:
    """Counts of a stream are totals so far: a newer count replaces the earlier one, a missing count does not."""
    if earlier is None or newer is None:
        return newer or earlier
    return Counts(*[getattr(earlier, key) if value is None or value == NULL else value for key, value in asdict(newer).items()])


def to_usage(counts: Counts | None) -> Usage | None:
    """The usage of a response; None if there are no legible counts (yet).

    Anthropic's `input_tokens` excludes the tokens that were read from and written to the cache: the input is the sum of the three. `speed`
    is the tier "fast" where no other one is reported: fast mode is not offered together with those.
    """
    if counts is None:
        return None
    cache_read, written, for_hour = _cache_counts(counts)
    uncached = plausible_count(counts.input_tokens)
    tier = counts.service_tier if counts.service_tier in _PRICED_TIERS else None
    usage = Usage(
        input=None if uncached is None else uncached + (cache_read or 0) + (written or 0),
        output=plausible_count(counts.output_tokens),
        cached=cache_read,
        reasoning=plausible_count(counts.output_tokens_details.thinking_tokens) if counts.output_tokens_details else None,
        cache_written=written,
        cache_written_hour=for_hour,
        tier="fast" if tier is None and counts.speed == _FAST else tier,
        region=None if counts.inference_geo in _PLAIN_GEOS else _read_text(counts.inference_geo),
        tool_uses=None if counts.server_tool_use is NULL else _read_tool_uses(counts.server_tool_use),
    )
    if counts.iterations is not NULL:
        usage = _with_iterations(usage, counts.iterations)
    return None if is_uncounted(usage) else usage


def _cache_counts(counts: Counts | _Iteration) -> tuple[int | None, int | None, int | None]:
    """Returns the tokens read from the cache, those written to it, and how many of the latter are kept for an hour."""
    written = plausible_count(counts.cache_creation_input_tokens)
    creation = counts.cache_creation
    if creation is None:
        return plausible_count(counts.cache_read_input_tokens), written, None
    for_hour, shortly = plausible_count(creation.ephemeral_1h_input_tokens), plausible_count(creation.ephemeral_5m_input_tokens)
    if written is None and (for_hour is not None or shortly is not None):
        written = (for_hour or 0) + (shortly or 0)
    return plausible_count(counts.cache_read_input_tokens), written, for_hour


def _with_iterations(usage: Usage, raw: Raw) -> Usage:
    """The usage of all runs together, which is what is billed; unchanged if there was one run, that of the response."""
    try:
        entries = [] if raw == NULL else _iterations_decoder.decode(raw)
    except DECODE_ERRORS:
        return usage
    entries = _billed(entries)
    if not entries or (len(entries) == 1 and entries[0].type == "message"):
        return usage
    iterations = tuple(Iteration(each.model, _iteration_usage(each)) for each in entries)
    total = sum_usage([each.usage for each in iterations])
    return replace(
        usage,
        input=total.input,
        output=total.output,
        cached=total.cached,
        cache_written=total.cache_written,
        cache_written_hour=total.cache_written_hour,
        iterations=iterations,
    )


def _billed(entries: list[_Iteration]) -> list[_Iteration]:
    """Returns the billed runs: all but those of a model that declined before it wrote anything, for which a fallback answered.

    Source: https://platform.claude.com/docs/en/release-notes/overview (refusals without output), read 2026-11.
    """
    served = next((each.model for each in entries if each.type == "fallback_message"), None)
    if served is None:
        return entries
    return [each for each in entries if each.type != "message" or each.model == served or each.output_tokens]


def _iteration_usage(entry: _Iteration) -> Usage:
    cache_read, written, for_hour = _cache_counts(entry)
    input_tokens = (plausible_count(entry.input_tokens) or 0) + (cache_read or 0) + (written or 0)
    return Usage(
        input=input_tokens,
        output=plausible_count(entry.output_tokens) or 0,
        cached=cache_read,
        cache_written=written,
        cache_written_hour=for_hour,
    )


def _read_tool_uses(raw: Raw) -> Mapping[str, int] | None:
    try:
        return None if raw == NULL else count_uses([(WEB_SEARCH, _tool_use_decoder.decode(raw).web_search_requests)])
    except DECODE_ERRORS:
        return None


def _read_text(raw: Raw) -> str | None:
    try:
        return _text_decoder.decode(raw)[:_MAX_REGION_CHARS] or None
    except DECODE_ERRORS:
        return None


def read_tier(counts: Counts | None) -> str | None:
    return None if counts is None or counts.service_tier is None else _TIERS.get(counts.service_tier)


def with_known_tier(usage: Raw) -> Raw:
    """An engine's usage; a service tier that Anthropic does not have is null, as official SDKs validate it."""
    if b'"service_tier"' not in bytes(usage):
        return usage
    try:
        fields = _fields_decoder.decode(usage)
    except DECODE_ERRORS:
        return usage
    if fields.get("service_tier", NULL) in _KNOWN_TIERS:
        return usage
    return Raw(msgspec.json.encode({**fields, "service_tier": NULL}))


def write_usage(usage: Usage | None, service_tier: str | None = None) -> dict[str, Any]:
    """Input and output that were not counted are written as 0: the official SDKs require both."""
    usage = usage or Usage()
    body: dict[str, Any] = {
        "input_tokens": max(0, (usage.input or 0) - (usage.cached or 0) - (usage.cache_written or 0)),
        "output_tokens": usage.output or 0,
    }
    if usage.cache_written is not None:
        body["cache_creation_input_tokens"] = usage.cache_written
        if usage.cache_written_hour is not None:
            five_minute_tokens = max(0, usage.cache_written - usage.cache_written_hour)
            body["cache_creation"] = {
                "ephemeral_5m_input_tokens": five_minute_tokens,
                "ephemeral_1h_input_tokens": usage.cache_written_hour,
            }
    if usage.cached is not None:
        body["cache_read_input_tokens"] = usage.cached
    if usage.reasoning is not None:
        body["output_tokens_details"] = {"thinking_tokens": usage.reasoning}
    if usage.estimated:
        body["estimated"] = True
    if service_tier in _NATIVE_TIERS:
        body["service_tier"] = _NATIVE_TIERS[service_tier]
    return body
