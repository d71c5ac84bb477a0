"""What objects of chat hold beyond what has a name in the meaning: kept by its path, and said again where it stood."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from providers.wire import NULL


def as_raw(value: Any) -> Raw:
    return value if isinstance(value, Raw) else Raw(msgspec.json.encode(value))


def rest_of(told: Mapping[str, Any], within: str, *known: str) -> dict[str, Raw]:
    """By paths that begin with `within`. Null means not said."""
    rest = {f"{within}.{key}": as_raw(value) for key, value in told.items() if key not in known}
    return {path: raw for path, raw in rest.items() if raw != NULL}


def put(told: dict[str, Any], path: str, value: Raw, *within: str | None) -> None:
    """Says again at its path what stood in one of the objects that `within` names; all else is a key as it is."""
    *above, last = path.split(".")
    if not above or above[0] not in within:
        told[path] = value
        return
    for key in above:
        told = told.setdefault(key, {})
    told[last] = value
