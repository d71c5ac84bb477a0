"""What objects of chat hold beyond what has a name in the meaning: kept by its path, and said again where it stood."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from providers.canonical.raw_json import NULL


def as_raw(value: Any) -> Raw:
    return value if isinstance(value, Raw) else Raw(msgspec.json.encode(value))


def read_extra_fields(fields: Mapping[str, Any], within: str, *known: str) -> dict[str, Raw]:
    """By paths that begin with `within`. Null means not said."""
    extra = {f"{within}.{key}": as_raw(value) for key, value in fields.items() if key not in known}
    return {path: raw for path, raw in extra.items() if raw != NULL}


def write_extra_field(fields: dict[str, Any], path: str, value: Raw, *within: str | None) -> None:
    """Says again at its path what stood in one of the objects that `within` names; all else is a key as it is."""
    *parents, last = path.split(".")
    if not parents or parents[0] not in within:
        fields[path] = value
        return
    for key in parents:
        fields = fields.setdefault(key, {})
    fields[last] = value
