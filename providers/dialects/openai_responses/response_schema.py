"""A Response and its items as engines send them."""

from msgspec import Raw, Struct

from providers.canonical.raw_json import NULL


class Content(Struct):
    """A part of a message, of reasoning or of a reasoning summary."""

    type: str = ""
    text: str | None = None
    refusal: str | None = None
    annotations: list[Raw] | None = None
    logprobs: list[Raw] | None = None


class Item(Struct):
    type: str = ""
    content: list[Content] | None = None
    summary: list[Content] | None = None
    encrypted_content: str | None = None
    call_id: str | None = None
    id: str | None = None
    name: str | None = None
    arguments: str | dict[str, Raw] | None = None
    input: str | None = None
    phase: str | None = None


class _IncompleteDetails(Struct):
    reason: str | None = None


class WireResponse(Struct):
    """A Response as an engine sends it."""

    output: list[Raw] | None = None
    status: str | None = None
    incomplete_details: _IncompleteDetails | None = None
    model: str = ""
    created_at: int | float | None = None
    usage: Raw = NULL
    service_tier: str | None = None
