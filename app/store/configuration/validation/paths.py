"""The paths in a configuration file of entries without a key of their own."""

from app.domain.prices import Price


def limit_path(name: str) -> str:
    """A limit as messages name it."""
    return f'limits["{name}"]'


def price_path(price: Price) -> str:
    """A price as messages name it."""
    since = f', since "{price.since}"' if price.since else ""
    return f'prices["{price.provider}", "{price.model}"{since}]'


def price_key(price: Price) -> tuple[str, str, str]:
    """The identity of a price, by which prices are sorted."""
    return price.provider, price.model, price.since or ""
