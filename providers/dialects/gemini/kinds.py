"""Parts that only Gemini has (code that it ran, tools of Google's own), kept whole: with a `type`, by which callers' dialects know them."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from providers.chat import Opaque
from providers.wire import UNREADABLE

NAME = "gemini"

_object = msgspec.json.Decoder(dict[str, Raw])
_BESIDE = frozenset({"thought", "thoughtSignature", "videoMetadata", "partMetadata"})


def opaque(part: Mapping[str, Raw]) -> Opaque:
    """A part is named for the one of its keys that says what it is."""
    kind = next((key for key in part if key not in _BESIDE), "part")
    return Opaque(NAME, Raw(msgspec.json.encode({"type": kind, **part})))


def as_told(part: Opaque) -> dict[str, Any]:
    """As Gemini wrote it. Raises msgspec.DecodeError for what a caller made up."""
    return {key: value for key, value in _object.decode(part.raw).items() if key != "type"}


def kind_of(part: Opaque) -> str:
    """ "" where it has none."""
    try:
        kind = msgspec.json.decode(_object.decode(part.raw).get("type", Raw(b'""')))
    except UNREADABLE:
        return ""
    return kind if isinstance(kind, str) else ""
