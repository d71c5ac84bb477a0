"""Prices by provider, model and time: the price in force when an inference was received."""

import bisect
import datetime
from collections.abc import Sequence
from functools import lru_cache

from app.domain import Price, Snapshot

_DAY_S = 86_400


def find_price(snapshot: Snapshot, provider: str, model: str, at_s: float) -> Price | None:
    """The price of a provider's model at a moment (Unix time); None: it had none. `model`: the provider's name of it.

    Cheap enough for every request: the index is built once for each snapshot.
    """
    if not snapshot.prices:
        return None
    return _build_index(_ByIdentity(snapshot.prices)).find(provider, model, at_s)


class PriceIndex:
    """Finds prices by provider, model and time."""

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
    """A tuple that equals only itself: comparing thousands of prices at each request would cost more than the price itself."""

    __slots__ = ("prices",)

    def __init__(self, prices: tuple[Price, ...]) -> None:
        self.prices = prices

    def __hash__(self) -> int:
        return id(self.prices)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByIdentity) and other.prices is self.prices


@lru_cache(maxsize=4)  # requests in progress may still use an earlier snapshot
def _build_index(prices_by_identity: _ByIdentity) -> PriceIndex:
    return PriceIndex(prices_by_identity.prices)


def _first_day(price: Price) -> int:
    """The first day of a price, in days since 1970; before all others for one that always applies."""
    if price.since is None:
        return -(2**31)
    return datetime.date.fromisoformat(price.since).toordinal() - datetime.date(1970, 1, 1).toordinal()
