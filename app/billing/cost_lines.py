"""Recorded costs by kind of token, each with its price: for exports and reconciliations. Their sums are those of the records."""

import asyncio
import datetime
from collections.abc import AsyncGenerator, Mapping, Sequence
from fractions import Fraction

from msgspec import Struct
from sqlalchemy.ext.asyncio import AsyncConnection

from app.billing.charged_tokens import DAY, ChargedGroup, PricedTimes, read_charged_groups, read_price_versions
from app.billing.price_index import price_name
from app.domain.price_hours import minutes_of
from app.domain.prices import WEEKDAYS, Price, PriceHours, PriceStep

# Before the name of what is billed by the use, in the kind of a line.
USE = "use:"


class CostLine(Struct, frozen=True):
    """Tokens of one kind."""

    group: ChargedGroup  # whose they are, and what served
    # Of a token (app/billing/cost.py), `use:NAME` of what is billed by the use, `gpu_time`, whose `quantity` is in microseconds, or
    # `other`: a cost that no known version of its price explains, with the number of requests.
    kind: str
    quantity: int
    usd_per_million: Fraction | None  # of `quantity`, with the tier's factor; None: not known
    cost_microusd: int | None  # of the records; None: unknown


async def walk_cost_lines(
    connection: AsyncConnection, first: datetime.date, last: datetime.date, providers: Sequence[str] | None = None
) -> AsyncGenerator[list[CostLine]]:
    """The lines of each UTC day from `first` to `last`, in order."""
    by_name = {price_name(*key[:2], key[2] or None): versions for key, versions in (await read_price_versions(connection)).items()}
    # The steps of today's version: groups of an earlier one with other steps become `other`.
    steps = {name: [step.above for step in versions[0].steps] for name, versions in by_name.items() if versions[0].steps}
    hours = {name: [_priced_times(each) for each in versions[0].hours] for name, versions in by_name.items() if versions[0].hours}
    day = first
    while day <= last:
        groups = await read_charged_groups(connection, day, steps, providers, hours)
        yield await asyncio.to_thread(_split_groups, groups, by_name)
        day += DAY


def _priced_times(hours: PriceHours) -> PricedTimes:
    return PricedTimes([WEEKDAYS.index(day) + 1 for day in hours.days], minutes_of(hours.start), minutes_of(hours.end))


def _split_groups(groups: Sequence[ChargedGroup], prices: Mapping[str, Sequence[Price]]) -> list[CostLine]:
    return [line for group in groups for line in split_group(group, prices)]


def split_group(group: ChargedGroup, prices: Mapping[str, Sequence[Price]]) -> list[CostLine]:
    """Splits a group into lines by the version of the price that its recorded cost was computed with."""
    cost = group.cost_microusd
    if cost is None:
        return [CostLine(group, kind, quantity, None, None) for kind, quantity in _quantities(group).items()]
    for price in prices.get(group.price, ()) if group.price is not None else ():
        lines = _split(group, cost, price)
        if lines is not None:
            return lines
    lines = [CostLine(group, kind, quantity, None, 0) for kind, quantity in _quantities(group).items()]
    return lines if cost == 0 else [*lines, CostLine(group, "other", group.requests, None, cost)]


def _split(group: ChargedGroup, cost: int, price: Price) -> list[CostLine] | None:
    """Splits a group by one price. Returns None if the group's cost was not computed with this price."""
    rates = _usd_by_kind(group, price)
    if rates is None:
        return None
    quantities = {"gpu_time": group.duration_us} if price.gpu is not None else _quantities(group)
    # What is used and has no price is a line of no cost.
    exact = {kind: quantity * rates.get(kind, Fraction(0)) for kind, quantity in quantities.items()}
    # Each request was rounded by half a millionth at most.
    if abs(sum(exact.values()) - cost) > Fraction(group.requests, 2) + 1:
        return None
    if not exact:
        return []
    amounts = {kind: int(each) for kind, each in exact.items()}
    largest = max(amounts, key=lambda kind: amounts[kind])
    amounts[largest] += cost - sum(amounts.values())
    return [CostLine(group, kind, quantity, rates.get(kind, Fraction(0)), amounts[kind]) for kind, quantity in quantities.items()]


def _quantities(group: ChargedGroup) -> dict[str, int]:
    return {**group.tokens, **{f"{USE}{name}": count for name, count in group.tool_uses.items()}}


def _usd_by_kind(group: ChargedGroup, price: Price) -> dict[str, Fraction] | None:
    """US dollars for a million of each kind; None: the price does not say."""
    if price.gpu is not None:
        gpu = price.gpu
        return {"gpu_time": _exact(gpu.usd_per_hour) * _exact(gpu.gpus) / _exact(gpu.concurrency) / 3600}
    if group.step > len(price.steps) or (group.tier is not None and group.tier not in price.tiers):
        return None
    rates: Price | PriceStep = price.steps[group.step - 1] if group.step else price
    if rates.input is None or rates.output is None:
        return None
    if group.hours > len(price.hours):
        return None
    factor = Fraction(1) if group.tier is None else _exact(price.tiers[group.tier])
    if group.region is not None:
        factor *= _exact(price.regions.get(group.region, 1.0))
    if group.hours:
        factor *= _exact(price.hours[group.hours - 1].factor)
    usd = {
        "input": rates.input,
        "cached_input": _or(rates.cached_input, rates.input),
        "cache_write": _or(rates.cache_write, rates.input),
        "cache_write_hour": _or(rates.cache_write_hour, rates.input),
        "cache_write_12_hours": _or(rates.cache_write_12_hours, rates.input),
        "audio_input": _or(rates.audio_input, rates.input),
        "image_input": _or(rates.image_input, rates.input),
        "output": rates.output,
        "audio_output": _or(rates.audio_output, rates.output),
    }
    # Prices of uses are for a thousand, and no factor holds for them.
    uses = {f"{USE}{name}": _exact(each) * 1000 for name, each in price.tool_uses.items()}
    return {kind: _exact(each) * factor for kind, each in usd.items()} | uses


def _or(usd: float | None, other: float) -> float:
    return other if usd is None else usd


def _exact(usd: float) -> Fraction:
    """The number that was written, and not its binary approximation."""
    return Fraction(repr(usd))
