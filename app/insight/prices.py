"""What an inference costs: a provider's price in force when it was received, and its tokens by that price, in millionths of a dollar."""

import bisect
import datetime
from collections.abc import Sequence
from functools import lru_cache

from app.domain import Directory, Price
from providers.chat import Usage

_DAY_S = 86_400
# A dollar for a million tokens is a millionth of a dollar for a token; nine more digits, so that all is counted in whole numbers.
_PARTS = 1_000_000_000


def cost_microusd(usage: Usage, price: Price) -> int | None:
    """Rounded once, half up; None: unknown, for the engine did not count what has a price, or it has none that was told.

    Parts of the input and of the output are priced in their place, not beside it; parts that are more than the whole, as far as it goes.
    """
    if (usage.input is None and price.input) or (usage.output is None and price.output):
        return None
    if usage.tier is not None and usage.tier not in price.tiers:
        return None
    hour = usage.cache_written_hour or 0
    if hour and price.cache_write_hour is None and price.cache_write is not None:
        return None
    write = _or(price.cache_write, price.input)
    written = max(0, (usage.cache_written or 0) - hour)
    read = _parts(
        usage.input or 0,
        price.input,
        (usage.cached, _or(price.cached_input, price.input)),
        (hour, _or(price.cache_write_hour, write)),
        (written, write),
        (usage.audio_input, _or(price.audio_input, price.input)),
        (usage.image_input, _or(price.image_input, price.input)),
    )
    made = _parts(usage.output or 0, price.output, (usage.audio_output, _or(price.audio_output, price.output)))
    parts = read + made
    if usage.tier is not None:
        parts = (parts * _in_parts(price.tiers[usage.tier]) + _PARTS // 2) // _PARTS
    return (parts + _PARTS // 2) // _PARTS


def _or(usd: float | None, other: float) -> float:
    return other if usd is None else usd


def _parts(whole: int, usd: float, *parts: tuple[int | None, float]) -> int:
    cost, left = 0, whole
    for count, its_usd in parts:
        if count:
            taken = min(count, left)
            left -= taken
            cost += taken * _in_parts(its_usd)
    return cost + left * _in_parts(usd)


def price_of(directory: Directory, provider: str, model: str, at_s: float) -> Price | None:
    """The price of a provider's model at a moment (Unix time); None: it had none then. `model`: the provider's name for it.

    Cheap enough for every request: the list is prepared once for each directory.
    """
    if not directory.prices:
        return None
    return _prepared(_Same(directory.prices)).find(provider, model, at_s)


class PriceList:
    """Prices, found by provider, model and time."""

    def __init__(self, prices: Sequence[Price]) -> None:
        self._since: dict[tuple[str, str], tuple[list[int], list[Price]]] = {}
        for price in sorted(prices, key=_first_day):
            days, found = self._since.setdefault((price.provider, price.model), ([], []))
            days.append(_first_day(price))
            found.append(price)

    def find(self, provider: str, model: str, at_s: float) -> Price | None:
        days, prices = self._since.get((provider, model), _NONE)
        at = bisect.bisect_right(days, at_s // _DAY_S)
        return prices[at - 1] if at else None


_NONE: tuple[list[int], list[Price]] = ([], [])


class _Same:
    """A tuple that is equal to itself alone: to compare thousands of prices at each request would cost more than to count by one."""

    __slots__ = ("prices",)

    def __init__(self, prices: tuple[Price, ...]) -> None:
        self.prices = prices

    def __hash__(self) -> int:
        return id(self.prices)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.prices is self.prices


@lru_cache(maxsize=4)  # requests under way may still be of an earlier directory
def _prepared(same: _Same) -> PriceList:
    return PriceList(same.prices)


def _first_day(price: Price) -> int:
    """Days since 1970; before all others where the price holds ever."""
    if price.since is None:
        return -(2**31)
    return datetime.date.fromisoformat(price.since).toordinal() - datetime.date(1970, 1, 1).toordinal()


def _in_parts(usd_per_million: float) -> int:
    return round(usd_per_million * _PARTS)
