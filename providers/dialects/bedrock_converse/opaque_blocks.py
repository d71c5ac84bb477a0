"""What Converse minted and wants back: signatures of reasoning, reasoning that it hid, and blocks that nobody else has.

A block is carried as it came, with the one key that names its kind told as `type` too, by which other dialects know a block.
"""

from typing import Any

import msgspec
from msgspec import Raw

from providers.canonical.chat import Opaque, Reasoning
from providers.canonical.raw_json import DECODE_ERRORS, NULL

NAME = "bedrock_converse"

# As every dialect calls reasoning that only its minter can read.
_REDACTED = "redacted_thinking"
# Arguments that are no JSON object, where `input` must be one.
_UNPARSED = "_unparsed"

_object = msgspec.json.Decoder(dict[str, Raw])
_string = msgspec.json.Decoder(str)
_encode = msgspec.json.encode


def read_redacted(data: str) -> Opaque:
    return Opaque(NAME, Raw(_encode({"type": _REDACTED, "data": data})))


def read_native_block(block: dict[str, Raw]) -> Opaque:
    kind = next(iter(block), "unknown")
    return Opaque(NAME, Raw(_encode({"type": kind, **block})))


def write_opaque(part: Opaque) -> dict[str, Any]:
    block = _object.decode(part.raw)
    if kind_of(part.raw) == _REDACTED:
        return {"reasoningContent": {"redactedContent": block.get("data", Raw(b'""'))}}
    block.pop("type", None)
    return block


def write_reasoning(part: Reasoning) -> dict[str, Any]:
    assert part.opaque_state is not None
    return {"reasoningContent": {"reasoningText": {"text": part.text, "signature": part.opaque_state.data}}}


def kind_of(raw: Raw) -> str:
    """The type of a block, "" for what is none: whoever gives a carrier back may have made it up."""
    try:
        return _string.decode(_object.decode(raw).get("type", NULL))
    except DECODE_ERRORS:
        return ""


def read_input(raw: Raw) -> str:
    """A call's arguments. Raises msgspec.ValidationError if `raw` is no object, nor null."""
    if raw == NULL:
        return "{}"
    fields = _object.decode(raw)
    if len(fields) == 1 and _UNPARSED in fields and bytes(fields[_UNPARSED]).startswith(b'"'):
        return _string.decode(fields[_UNPARSED])
    return bytes(raw).decode()


def write_input(arguments: str) -> Any:
    """What a model wrote that is no object is put into one, whole."""
    if not arguments.strip():
        return {}
    try:
        _object.decode(arguments)
    except DECODE_ERRORS:
        return {_UNPARSED: arguments}
    return Raw(arguments.encode())
