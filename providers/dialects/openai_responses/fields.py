"""Fields of an object of which nothing is decoded yet."""

import msgspec
from msgspec import Raw

from providers.wire import NULL

Object = dict[str, Raw]

# What an item says of itself that means nothing to who reads it.
_MEANINGLESS = frozenset({"type", "id", "status"})


def text_of(item: Object, key: str) -> str:
    """A text that may be absent or null."""
    value = item.get(key, NULL)
    return "" if value == NULL else msgspec.json.decode(value, type=str)


def said_of(item: Object, key: str) -> Raw | None:
    value = item.get(key, NULL)
    return None if value == NULL else value


def rest_of(item: Object, *known: str) -> Object:
    """What has no name of ours."""
    return {key: value for key, value in item.items() if key not in known and key not in _MEANINGLESS and value != NULL}
