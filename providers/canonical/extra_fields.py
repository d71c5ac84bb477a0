"""Extra fields: what a dialect's objects hold beyond the fields of the canonical chat, kept by path and written back there."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from providers.canonical.raw_json import NULL


def as_raw(value: Any) -> Raw:
    """The value as JSON; Raw is JSON already."""
    return value if isinstance(value, Raw) else Raw(msgspec.json.encode(value))


def read_extra_fields(fields: Mapping[str, Any], within: str, *known: str) -> dict[str, Raw]:
    """The fields that are not `known`, by paths that begin with `within`, such as `messages[0].name`. Null counts as absent."""
    extra = {f"{within}.{key}": as_raw(value) for key, value in fields.items() if key not in known}
    return {path: raw for path, raw in extra.items() if raw != NULL}


def write_extra_field(fields: dict[str, Any], path: str, value: Raw, *within: str | None) -> None:
    """Writes a field back at its path, if that leads into one of the objects `within`; else under the path as a plain key."""
    *parents, last = path.split(".")
    if not parents or parents[0] not in within:
        fields[path] = value
        return
    for key in parents:
        fields = fields.setdefault(key, {})
    fields[last] = value
