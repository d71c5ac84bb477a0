"""The cost of an inference: its tokens at a price, in millionths of a dollar."""

from msgspec.structs import replace

from app.domain import Price
from providers.canonical.chat import Usage

# A dollar per million tokens is a millionth of a dollar per token; nine more digits, so that everything is counted in integers.
_UNITS_PER_MICROUSD = 1_000_000_000


def cost_microusd(usage: Usage, price: Price) -> int | None:
    """The cost, rounded once, half up; None: unknown, as the engine did not report tokens that have a price, or the price is unknown.

    Cached, audio and image tokens are part of the input or output and are priced instead of it, not in addition. Parts that add up to
    more than their total are cut off at it. Where the host bills other tokens than it processed, those are priced, at the price of plain
    input and output: the parts are of what was processed.
    """
    if usage.billed_input is not None or usage.billed_output is not None:
        usage = _billed_usage(usage)
    if (usage.input is None and price.input) or (usage.output is None and price.output):
        return None
    if usage.tier is not None and usage.tier not in price.tiers:
        return None
    written_for_hour = usage.cache_written_hour or 0
    if written_for_hour and price.cache_write_hour is None and price.cache_write is not None:
        return None
    write_usd = _or_default(price.cache_write, price.input)
    written = max(0, (usage.cache_written or 0) - written_for_hour)
    input_units = _cost_units(
        usage.input or 0,
        price.input,
        (usage.cached, _or_default(price.cached_input, price.input)),
        (written_for_hour, _or_default(price.cache_write_hour, write_usd)),
        (written, write_usd),
        (usage.audio_input, _or_default(price.audio_input, price.input)),
        (usage.image_input, _or_default(price.image_input, price.input)),
    )
    output_units = _cost_units(usage.output or 0, price.output, (usage.audio_output, _or_default(price.audio_output, price.output)))
    units = input_units + output_units
    if usage.tier is not None:
        units = (units * _to_units(price.tiers[usage.tier]) + _UNITS_PER_MICROUSD // 2) // _UNITS_PER_MICROUSD
    return (units + _UNITS_PER_MICROUSD // 2) // _UNITS_PER_MICROUSD


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


def _or_default(usd: float | None, other: float) -> float:
    return other if usd is None else usd


def _cost_units(total: int, usd: float, *priced_parts: tuple[int | None, float]) -> int:
    cost, remaining = 0, total
    for count, part_usd in priced_parts:
        if count:
            taken = min(count, remaining)
            remaining -= taken
            cost += taken * _to_units(part_usd)
    return cost + remaining * _to_units(usd)


def _to_units(usd_per_million: float) -> int:
    return round(usd_per_million * _UNITS_PER_MICROUSD)
