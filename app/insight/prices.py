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
    """Rounded once, half up; None: the engine did not count what has a price.

    Cached tokens are part of the input, and reasoning of the output: they are not added to it.
    """
    input, output = usage.input, usage.output
    if (input is None and price.input) or (output is None and price.output):
        return None
    input, output = input or 0, output or 0
    cached = 0 if price.cached_input is None else min(usage.cached or 0, input)
    cached_input = price.input if price.cached_input is None else price.cached_input
    parts = (input - cached) * _in_parts(price.input) + cached * _in_parts(cached_input) + output * _in_parts(price.output)
    return (parts + _PARTS // 2) // _PARTS


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
