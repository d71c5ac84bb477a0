"""Blocks that only Converse can read: signed and redacted reasoning, and blocks that no other dialect has.

Such a block is kept as it came, with its one key, which names its kind, repeated as `type`: by that other dialects know it.
"""

from typing import Any

import msgspec
from msgspec import Raw

from providers.canonical.chat import Opaque, Reasoning
from providers.canonical.opaque_parts import opaque_kind

NAME = "bedrock_converse"

# The type of redacted reasoning in every dialect.
_REDACTED = "redacted_thinking"

_object = msgspec.json.Decoder(dict[str, Raw])
_encode = msgspec.json.encode


def read_redacted(data: str) -> Opaque:
    return Opaque(NAME, Raw(_encode({"type": _REDACTED, "data": data})))


def read_native_block(block: dict[str, Raw]) -> Opaque:
    kind = next(iter(block), "unknown")
    return Opaque(NAME, Raw(_encode({"type": kind, **block})))


def write_opaque(part: Opaque) -> dict[str, Any]:
    block = _object.decode(part.raw)
    if opaque_kind(part.raw) == _REDACTED:
        return {"reasoningContent": {"redactedContent": block.get("data", Raw(b'""'))}}
    block.pop("type", None)
    return block


def write_reasoning(part: Reasoning) -> dict[str, Any]:
    assert part.opaque_state is not None
    return {"reasoningContent": {"reasoningText": {"text": part.text, "signature": part.opaque_state.data}}}
