"""Fields of an object of which nothing is decoded yet."""

import msgspec
from msgspec import Raw

from providers.canonical.raw_json import NULL

RawObject = dict[str, Raw]

# What an item says of itself that means nothing to who reads it.
_IGNORED_KEYS = frozenset({"type", "id", "status"})


def text_field(item: RawObject, key: str) -> str:
    """A text that may be absent or null."""
    value = item.get(key, NULL)
    return "" if value == NULL else msgspec.json.decode(value, type=str)


def raw_field(item: RawObject, key: str) -> Raw | None:
    value = item.get(key, NULL)
    return None if value == NULL else value


def extra_fields(item: RawObject, *known_keys: str) -> RawObject:
    """What has no name of ours."""
    return {key: value for key, value in item.items() if key not in known_keys and key not in _IGNORED_KEYS and value != NULL}
