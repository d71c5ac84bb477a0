"""The cost of an inference: its tokens, or its time, at a price, in millionths of a dollar."""

from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from app.domain.price_hours import hours_factor
from app.domain.prices import GpuPrice, Price, PriceStep
from providers.canonical.chat import Usage

# A dollar per million tokens is a millionth of a dollar per token; nine more digits, so that everything is counted in integers.
UNITS_PER_MICROUSD = 1_000_000_000
_HOUR_S = 3600
# Reading a token of the input takes about so much less time than writing one.
_READ_SPEEDUP = 100

# The price of a thousand uses in US dollars, times this, is that of one.
_UNITS_PER_USE = 1_000 * UNITS_PER_MICROUSD

TokenKind = Literal[
    "input",
    "cached_input",
    "cache_write",
    "cache_write_hour",
    "cache_write_12_hours",
    "audio_input",
    "image_input",
    "output",
    "audio_output",
]


# Tokens of one kind: the kind, how many, and what a million of them costs in US dollars. No class of its own: every request makes some.
PricedTokens = tuple[TokenKind, int, float]


def cost_microusd(usage: Usage, price: Price, duration_us: int | None = None, at_s: float | None = None) -> int | None:
    """The cost, rounded once, half up; None: unknown, as the engine did not report tokens that have a price, or the price is unknown.

    Cached, audio and image tokens are part of the input or output and are priced instead of it, not in addition. Parts that add up to more
    than their total are cut off at it. Where the host bills other tokens than it processed, those are priced, at the price of plain input
    and output: the parts are of what was processed. `duration_us` is that of the attempt, for a price of its time, and `at_s` the Unix time
    of the request, for a price with hours; None means that it is not known.
    """
    units = cost_units(usage, price, duration_us, at_s)
    return None if units is None else (units + UNITS_PER_MICROUSD // 2) // UNITS_PER_MICROUSD


def cost_units(usage: Usage, price: Price, duration_us: int | None = None, at_s: float | None = None) -> int | None:
    """Returns the cost as cost_microusd() computes it, but not rounded: in billionths of a microdollar."""
    if price.gpu is not None:
        return None if duration_us is None else _gpu_microusd(price.gpu, duration_us) * UNITS_PER_MICROUSD
    priced_tokens = split_by_price(usage, price)
    if priced_tokens is None:
        return None
    units = 0
    for _, count, usd in priced_tokens:
        units += count * _to_units(usd)
    if usage.tier is not None:
        units = _times(units, price.tiers[usage.tier])
    if usage.region is not None and usage.region in price.regions:
        units = _times(units, price.regions[usage.region])
    if price.hours:
        if at_s is None:
            return None
        units = _times(units, hours_factor(price.hours, at_s))
    if usage.tool_uses is not None:
        for name, count in usage.tool_uses.items():
            units += count * round(price.tool_uses.get(name, 0.0) * _UNITS_PER_USE)
    return units


def round_together(units: Sequence[int]) -> list[int]:
    """Microdollars of the parts of one cost: they add up to the cost, rounded once, half up."""
    rounded: list[int] = []
    sum_units = sum_rounded = 0
    for each in units:
        sum_units += each
        rounded.append((sum_units + UNITS_PER_MICROUSD // 2) // UNITS_PER_MICROUSD - sum_rounded)
        sum_rounded += rounded[-1]
    return rounded


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
    if usage.cache_written is None and (usage.cache_written_hour or usage.cache_written_12_hours):
        usage = replace(usage, cache_written=(usage.cache_written_hour or 0) + (usage.cache_written_12_hours or 0))
    if usage.cache_written:
        for_hour, for_12_hours = usage.cache_written_hour or 0, usage.cache_written_12_hours or 0
        if for_hour:
            if rates.cache_write_hour is None and rates.cache_write is not None:
                return None
            remaining = _take(priced, "cache_write_hour", for_hour, remaining, rates.cache_write_hour, rates.input)
        if for_12_hours:
            if rates.cache_write_12_hours is None and rates.cache_write is not None:
                return None
            remaining = _take(priced, "cache_write_12_hours", for_12_hours, remaining, rates.cache_write_12_hours, rates.input)
        shortly = max(0, usage.cache_written - for_hour - for_12_hours)
        remaining = _take(priced, "cache_write", shortly, remaining, rates.cache_write, rates.input)
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


def reserved_microusd(input_tokens: int, output_tokens: int, price: Price, at_s: float | None = None) -> int | None:
    """Returns what limits reserve for a request with an estimated number of tokens, or None if that is unknown.

    `at_s` is explained at cost_microusd().
    """
    if price.gpu is None:
        return cost_microusd(Usage(input_tokens, output_tokens), price, at_s=at_s)
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
            cache_written_12_hours=None,
            audio_input=None,
            image_input=None,
            billed_input=None,
        )
    if output is not None:
        usage = replace(usage, output=output, reasoning=None, audio_output=None, billed_output=None)
    return usage


def _take(priced: list[PricedTokens], kind: TokenKind, count: int, remaining: int, usd: float | None, other: float) -> int:
    """Adds tokens that are a part of others; returns how many of these remain. Where `usd` is None, they cost as much as `other`."""
    taken = min(count, remaining)
    if taken:
        priced.append((kind, taken, other if usd is None else usd))
    return remaining - taken


def step_of(usage: Usage, price: Price) -> int:
    """Returns how many steps the input exceeds, of each request where several were sent."""
    input = (usage.input or 0) // (usage.requests or 1)
    return sum([input > step.above for step in price.steps])


def _rates_for(usage: Usage, price: Price) -> Price | PriceStep:
    step = step_of(usage, price)
    return price.steps[step - 1] if step else price


def _times(units: int, factor: float) -> int:
    return (units * _to_units(factor) + UNITS_PER_MICROUSD // 2) // UNITS_PER_MICROUSD


def _gpu_microusd(gpu: GpuPrice, duration_us: int) -> int:
    return int(duration_us * gpu.usd_per_hour * gpu.gpus / (_HOUR_S * gpu.concurrency) + 0.5)


def _to_units(usd_per_million: float) -> int:
    return round(usd_per_million * UNITS_PER_MICROUSD)
