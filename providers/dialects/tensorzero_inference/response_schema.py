"""Responses of POST /inference and the chunks of its streams, as this gateway wrote and recorded them."""

from msgspec import Raw, Struct

from providers.canonical.raw_json import NULL
from providers.dialects.tensorzero_inference.usage import WireUsage


class WireBlock(Struct):
    """A content block, or a piece of one. A chunk of a call after the first has an empty `raw_name`."""

    type: str
    id: str | None = None
    text: str | None = None
    signature: str | None = None
    raw_name: str | None = None
    raw_arguments: str | None = None
    data: Raw = NULL
    provider_name: str | None = None


class WireOutput(Struct):
    raw: str | None = None


class WireResponse(Struct):
    content: list[WireBlock] | None = None
    output: WireOutput | None = None
    usage: WireUsage | None = None
    finish_reason: str | None = None
    variant_name: str = ""


class WireChunk(Struct):
    content: list[WireBlock] | None = None
    raw: str | None = None
    usage: WireUsage | None = None
    finish_reason: str | None = None
    variant_name: str = ""
    error: Raw = NULL
