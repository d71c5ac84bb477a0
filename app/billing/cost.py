"""The cost of an inference: its tokens, or its time, at a price, in millionths of a dollar."""

from typing import Literal

from msgspec.structs import replace

from app.domain import GpuPrice, Price, PriceStep
from providers.canonical.chat import Usage

# A dollar per million tokens is a millionth of a dollar per token; nine more digits, so that everything is counted in integers.
_UNITS_PER_MICROUSD = 1_000_000_000
_HOUR_S = 3600
# Reading a token of the input takes about so much less time than writing one.
_READ_SPEEDUP = 100

TokenKind = Literal["input", "cached_input", "cache_write", "cache_write_hour", "audio_input", "image_input", "output", "audio_output"]


# Tokens of one kind: the kind, how many, and what a million of them costs in US dollars. No class of its own: every request makes some.
PricedTokens = tuple[TokenKind, int, float]


def cost_microusd(usage: Usage, price: Price, duration_us: int | None = None) -> int | None:
    """The cost, rounded once, half up; None: unknown, as the engine did not report tokens that have a price, or the price is unknown.

    Cached, audio and image tokens are part of the input or output and are priced instead of it, not in addition. Parts that add up to
    more than their total are cut off at it. Where the host bills other tokens than it processed, those are priced, at the price of plain
    input and output: the parts are of what was processed. `duration_us`: of the attempt, for a price of its time; None: not known.
    """
    if price.gpu is not None:
        return None if duration_us is None else _gpu_microusd(price.gpu, duration_us)
    priced_tokens = split_by_price(usage, price)
    if priced_tokens is None:
        return None
    units = 0
    for _, count, usd in priced_tokens:
        units += count * _to_units(usd)
    if usage.tier is not None:
        units = (units * _to_units(price.tiers[usage.tier]) + _UNITS_PER_MICROUSD // 2) // _UNITS_PER_MICROUSD
    return (units + _UNITS_PER_MICROUSD // 2) // _UNITS_PER_MICROUSD


def split_by_price(usage: Usage, price: Price) -> list[PricedTokens] | None:
    """The tokens by kinds, without the factor of a tier; None: the cost is unknown. Kinds without tokens are left out.

    See cost_microusd(). The price is not one of time.
    """
    rates = _rates_for(usage, price) if price.steps else price
    if rates.input is None or rates.output is None:
        return None
    if usage.billed_input is not None or usage.billed_output is not None:
        usage = _billed_usage(usage)
    if (usage.input is None and rates.input) or (usage.output is None and rates.output):
        return None
    if usage.tier is not None and usage.tier not in price.tiers:
        return None
    priced: list[PricedTokens] = []
    remaining = usage.input or 0
    if usage.cached:
        remaining = _take(priced, "cached_input", usage.cached, remaining, rates.cached_input, rates.input)
    if usage.cache_written:
        for_hour = usage.cache_written_hour or 0
        if for_hour:
            if rates.cache_write_hour is None and rates.cache_write is not None:
                return None
            remaining = _take(priced, "cache_write_hour", for_hour, remaining, rates.cache_write_hour, rates.input)
        remaining = _take(priced, "cache_write", max(0, usage.cache_written - for_hour), remaining, rates.cache_write, rates.input)
    elif usage.cache_written_hour:
        if rates.cache_write_hour is None and rates.cache_write is not None:
            return None
        remaining = _take(priced, "cache_write_hour", usage.cache_written_hour, remaining, rates.cache_write_hour, rates.input)
    if usage.audio_input:
        remaining = _take(priced, "audio_input", usage.audio_input, remaining, rates.audio_input, rates.input)
    if usage.image_input:
        remaining = _take(priced, "image_input", usage.image_input, remaining, rates.image_input, rates.input)
    if remaining:
        priced.append(("input", remaining, rates.input))
    remaining = usage.output or 0
    if usage.audio_output:
        remaining = _take(priced, "audio_output", usage.audio_output, remaining, rates.audio_output, rates.output)
    if remaining:
        priced.append(("output", remaining, rates.output))
    return priced


def reserved_microusd(input_tokens: int, output_tokens: int, price: Price) -> int | None:
    """What limits reserve for a request that is thought to have so many tokens; None: unknown."""
    if price.gpu is None:
        return cost_microusd(Usage(input_tokens, output_tokens), price)
    seconds = (output_tokens + input_tokens / _READ_SPEEDUP) / price.gpu.tokens_per_s
    return _gpu_microusd(price.gpu, int(seconds * 1_000_000))


def format_usd(microusd: int) -> bytes:
    """An amount in US dollars, exactly: 123 is 0.000123."""
    return b"%d.%06d" % divmod(microusd, 1_000_000)


def _billed_usage(usage: Usage) -> Usage:
    """The billed tokens as the usage, without parts on a side that is billed."""
    input, output = usage.billed_input, usage.billed_output
    if input is not None:
        usage = replace(
            usage,
            input=input,
            cached=None,
            cache_written=None,
            cache_written_hour=None,
            audio_input=None,
            image_input=None,
            billed_input=None,
        )
    if output is not None:
        usage = replace(usage, output=output, reasoning=None, audio_output=None, billed_output=None)
    return usage


def _take(priced: list[PricedTokens], kind: TokenKind, count: int, remaining: int, usd: float | None, other: float) -> int:
    """Adds tokens that are a part of others; returns how many of these remain. `usd` None: they cost as much as `other`."""
    taken = min(count, remaining)
    if taken:
        priced.append((kind, taken, other if usd is None else usd))
    return remaining - taken


def _rates_for(usage: Usage, price: Price) -> Price | PriceStep:
    """The highest step that the input exceeds, of each request where several were sent; the row itself below all steps."""
    input = (usage.input or 0) // (usage.requests or 1)
    return next((step for step in reversed(price.steps) if input > step.above), price)


def _gpu_microusd(gpu: GpuPrice, duration_us: int) -> int:
    return int(duration_us * gpu.usd_per_hour * gpu.gpus / (_HOUR_S * gpu.concurrency) + 0.5)


def _to_units(usd_per_million: float) -> int:
    return round(usd_per_million * _UNITS_PER_MICROUSD)
