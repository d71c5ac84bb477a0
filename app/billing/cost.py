"""What an inference costs: a provider's price in force when it was received, and its tokens by that price, in millionths of a dollar."""

import bisect
import datetime
from collections.abc import Sequence
from functools import lru_cache

from app.domain import Price, Snapshot
from providers.canonical.chat import Usage

_DAY_S = 86_400
# A dollar for a million tokens is a millionth of a dollar for a token; nine more digits, so that all is counted in whole numbers.
_UNITS_PER_MICROUSD = 1_000_000_000


def cost_microusd(usage: Usage, price: Price) -> int | None:
    """Rounded once, half up; None: unknown, for the engine did not count what has a price, or it has none that was told.

    Parts of the input and of the output are priced in their place, not beside it; parts that are more than the whole, as far as it goes.
    """
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


def find_price(snapshot: Snapshot, provider: str, model: str, at_s: float) -> Price | None:
    """The price of a provider's model at a moment (Unix time); None: it had none then. `model`: the provider's name for it.

    Cheap enough for every request: the list is prepared once for each directory.
    """
    if not snapshot.prices:
        return None
    return _build_index(_ByIdentity(snapshot.prices)).find(provider, model, at_s)


class PriceIndex:
    """Prices, found by provider, model and time."""

    def __init__(self, prices: Sequence[Price]) -> None:
        self._by_model: dict[tuple[str, str], tuple[list[int], list[Price]]] = {}
        for price in sorted(prices, key=_first_day):
            days, same_model = self._by_model.setdefault((price.provider, price.model), ([], []))
            days.append(_first_day(price))
            same_model.append(price)

    def find(self, provider: str, model: str, at_s: float) -> Price | None:
        days, prices = self._by_model.get((provider, model), _NO_PRICES)
        at = bisect.bisect_right(days, at_s // _DAY_S)
        return prices[at - 1] if at else None


_NO_PRICES: tuple[list[int], list[Price]] = ([], [])


class _ByIdentity:
    """A tuple that is equal to itself alone: to compare thousands of prices at each request would cost more than to count by one."""

    __slots__ = ("prices",)

    def __init__(self, prices: tuple[Price, ...]) -> None:
        self.prices = prices

    def __hash__(self) -> int:
        return id(self.prices)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByIdentity) and other.prices is self.prices


@lru_cache(maxsize=4)  # requests under way may still be of an earlier directory
def _build_index(prices_by_identity: _ByIdentity) -> PriceIndex:
    return PriceIndex(prices_by_identity.prices)


def _first_day(price: Price) -> int:
    """Days since 1970; before all others where the price holds ever."""
    if price.since is None:
        return -(2**31)
    return datetime.date.fromisoformat(price.since).toordinal() - datetime.date(1970, 1, 1).toordinal()


def _to_units(usd_per_million: float) -> int:
    return round(usd_per_million * _UNITS_PER_MICROUSD)
