"""Access to the fields of a JSON object whose values are not decoded yet."""

import msgspec
from msgspec import Raw

from providers.canonical.raw_json import NULL

RawObject = dict[str, Raw]

# Fields of an item that carry no content.
_IGNORED_KEYS = frozenset({"type", "id", "status"})


def text_field(item: RawObject, key: str) -> str:
    """A string; "" if it is absent or null."""
    value = item.get(key, NULL)
    return "" if value == NULL else msgspec.json.decode(value, type=str)


def raw_field(item: RawObject, key: str) -> Raw | None:
    """Returns the value of a field, or None if it is absent or null."""
    value = item.get(key, NULL)
    return None if value == NULL else value


def extra_fields(item: RawObject, *known_keys: str) -> RawObject:
    """The fields with a value that are neither known nor without content."""
    return {key: value for key, value in item.items() if key not in known_keys and key not in _IGNORED_KEYS and value != NULL}
