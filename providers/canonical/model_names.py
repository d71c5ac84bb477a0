"""Names of models in responses: hosts may say that another model answered than was requested, or which version of it."""

import functools
from typing import Any

import msgspec
from msgspec import Raw

_MAX_NAME_CHARACTERS = 200
_decode_text = msgspec.json.Decoder(str).decode


def read_model_name(value: Any) -> str | None:
    """The name, from JSON or decoded. None: there is none, or something else is in its place."""
    if isinstance(value, Raw):
        return _decode_name(bytes(value)) if len(value) <= _MAX_NAME_CHARACTERS else None
    return value if isinstance(value, str) and 0 < len(value) <= _MAX_NAME_CHARACTERS and value.isprintable() else None


@functools.lru_cache(maxsize=256)
def _decode_name(raw: bytes) -> str | None:
    try:
        name = _decode_text(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return name if name and name.isprintable() else None
