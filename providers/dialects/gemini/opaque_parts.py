"""Parts that only Gemini has, such as code that it ran. They are kept as they are, with a `type` that other dialects can read."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from providers.canonical.chat import Opaque

NAME = "gemini"

_object = msgspec.json.Decoder(dict[str, Raw])
_METADATA_KEYS = frozenset({"thought", "thoughtSignature", "videoMetadata", "partMetadata"})


def read_opaque_part(part: Mapping[str, Raw]) -> Opaque:
    """The type of a part is its one key that is not metadata."""
    kind = next((key for key in part if key not in _METADATA_KEYS), "part")
    return Opaque(NAME, Raw(msgspec.json.encode({"type": kind, **part})))


def write_opaque_part(part: Opaque) -> dict[str, Any]:
    """The part as Gemini wrote it. Raises msgspec.DecodeError for one that a caller made up."""
    return {key: value for key, value in _object.decode(part.raw).items() if key != "type"}
