"""Changes as text: each field as it was and as it is."""

from collections.abc import Mapping
from typing import Any

import msgspec

from app.cli.output import printable


def format_changes(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> list[str]:
    """Each field that differs. None: there was, or is, nothing."""
    old, new = before or {}, after or {}
    fields = [name for name in dict.fromkeys((*old, *new)) if old.get(name) != new.get(name)]
    texts = ((name, _json(old.get(name)), _json(new.get(name))) for name in fields)
    if before is None or after is None:
        return [printable(f"{name}: {is_now if before is None else was}") for name, was, is_now in texts]
    return [printable(f"{name}: {was} -> {is_now}") for name, was, is_now in texts]


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
