"""Prices by provider, model and time: the price in force when an inference was received."""

import bisect
import datetime
import urllib.parse
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from app.domain.prices import Price
from app.domain.snapshot import Snapshot

_DAY_S = 86_400


class NamedPrice(NamedTuple):
    """A price, and the name by which records refer to it: see price_name()."""

    price: Price
    name: str


def find_price(snapshot: Snapshot, provider: str, model: str, at_s: float) -> Price | None:
    """The price of a provider's model at a moment (Unix time); None: it had none. `model` is the provider's name of it."""
    found = find_named_price(snapshot, provider, model, at_s)
    return None if found is None else found.price


def find_named_price(snapshot: Snapshot, provider: str, model: str, at_s: float, reported_model: str | None = None) -> NamedPrice | None:
    """Returns what find_price() returns, with the name of the price.

    It is cheap enough for every request: the index is built once for each snapshot. `reported_model` is the
    host's own name of the model that served. Its price applies if one is configured: a name alone does not
    tell whether it is another model (`deepseek-v4-flash` for `deepseek-chat`) or a version of the same.
    """
    if not snapshot.prices:
        return None
    return _build_index(_ByIdentity(snapshot.prices)).find_served(provider, model, at_s, reported_model)


def price_name(provider: str, model: str, since: str | None) -> str:
    """The name of a price in records, its path below /admin/v1/prices/: `gpu/Qwen%2FQwen3-4B/2026-11-01`, `openai/gpt-5/always`."""
    return "/".join(urllib.parse.quote(part, safe="") for part in (provider, model, since or "always"))


class PriceIndex:
    """Finds prices by provider, model and time."""

    def __init__(self, prices: Sequence[Price]) -> None:
        self._by_model: dict[tuple[str, str], tuple[list[int], list[NamedPrice]]] = {}
        for price in sorted(prices, key=_first_day):
            days, same_model = self._by_model.setdefault((price.provider, price.model), ([], []))
            days.append(_first_day(price))
            same_model.append(NamedPrice(price, price_name(price.provider, price.model, price.since)))

    def find(self, provider: str, model: str, at_s: float) -> NamedPrice | None:
        days, prices = self._by_model.get((provider, model), _NO_PRICES)
        at = bisect.bisect_right(days, at_s // _DAY_S)
        return prices[at - 1] if at else None

    def find_served(self, provider: str, model: str, at_s: float, reported_model: str | None) -> NamedPrice | None:
        """See find_named_price()."""
        found = None if reported_model is None else self.find(provider, reported_model, at_s)
        return self.find(provider, model, at_s) if found is None else found


_NO_PRICES: tuple[list[int], list[NamedPrice]] = ([], [])


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
