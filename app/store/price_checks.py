"""What a price may say."""

import datetime

from app.domain import Directory, Price
from app.store.directory import price_key
from app.store.file import BadConfiguration, price_place

# Of US dollars for a million tokens: more is a price in another unit.
_MOST = 1_000_000.0
_AMOUNTS = (
    *("input", "output", "cached_input", "cache_write", "cache_write_hour"),
    *("audio_input", "audio_output", "image_input"),
)
_TIERS = ("batch", "flex", "priority")
_MOST_FACTOR = 100.0

# Of characters, four bytes each at most: two names and more must fit into one entry of an index of Postgres's (2704 bytes).
LONGEST_NAME = 200


def check(wanted: Directory) -> None:
    """Raises BadConfiguration for the first that could not be counted with."""
    met: set[tuple[str, str, str]] = set()
    for price in wanted.prices:
        place = price_place(price)
        if price_key(price) in met:
            raise BadConfiguration(f"{place} is there twice.")
        met.add(price_key(price))
        if price.provider not in wanted.providers:
            known = ", ".join(sorted(wanted.providers)) or "none yet"
            raise BadConfiguration(f"{place}.provider: there is no provider {price.provider!r}. There are: {known}.")
        if not price.model.strip() or not price.model.isprintable() or len(price.model) > LONGEST_NAME:
            raise BadConfiguration(f"{place:.100}.model must be the provider's own name for its model; {price.model!r:.100} is none.")
        if price.source is not None and "\0" in price.source:
            raise BadConfiguration(f"{place}.source: a NUL cannot be kept.")
        for field in _AMOUNTS:
            _check_amount(price, place, field)
        for tier, factor in price.tiers.items():
            if tier not in _TIERS:
                raise BadConfiguration(f"{place}.tiers may name {', '.join(_TIERS)}; {tier!r:.60} is none.")
            if not 0 <= factor <= _MOST_FACTOR:
                raise BadConfiguration(f"{place}.tiers.{tier} must be a factor from 0 to {_MOST_FACTOR:g}; {factor:g} is not.")
        if price.since is not None:
            _check_day(price.since, place)


def _check_amount(price: Price, place: str, field: str) -> None:
    amount: float | None = getattr(price, field)
    if amount is not None and not 0 <= amount <= _MOST:
        raise BadConfiguration(f"{place}.{field} must be from 0 to {_MOST:,.0f} US dollars for a million tokens; {amount:g} is not.")


def _check_day(since: str, place: str) -> None:
    try:
        is_day = datetime.date.fromisoformat(since).isoformat() == since
    except ValueError:
        is_day = False
    if not is_day:
        raise BadConfiguration(f"{place}.since must be a day, such as 2026-11-01; {since!r} is none.")
