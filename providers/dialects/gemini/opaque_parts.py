"""Parts that only Gemini has (code that it ran, tools of Google's own), kept whole: with a `type`, by which callers' dialects know them."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from providers.canonical.chat import Opaque
from providers.canonical.raw_json import DECODE_ERRORS

NAME = "gemini"

_object = msgspec.json.Decoder(dict[str, Raw])
_METADATA_KEYS = frozenset({"thought", "thoughtSignature", "videoMetadata", "partMetadata"})


def read_opaque_part(part: Mapping[str, Raw]) -> Opaque:
    """A part is named for the one of its keys that says what it is."""
    kind = next((key for key in part if key not in _METADATA_KEYS), "part")
    return Opaque(NAME, Raw(msgspec.json.encode({"type": kind, **part})))


def write_opaque_part(part: Opaque) -> dict[str, Any]:
    """As Gemini wrote it. Raises msgspec.DecodeError for what a caller made up."""
    return {key: value for key, value in _object.decode(part.raw).items() if key != "type"}


def kind_of(part: Opaque) -> str:
    """ "" where it has none."""
    try:
        kind = msgspec.json.decode(_object.decode(part.raw).get("type", Raw(b'""')))
    except DECODE_ERRORS:
        return ""
    return kind if isinstance(kind, str) else ""
