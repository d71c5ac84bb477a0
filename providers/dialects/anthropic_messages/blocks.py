"""The blocks of answers as parts, and back; and what is written the same way in asks.

Source: https://docs.claude.com/en/api/messages, read 2026-11.
"""

import uuid
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.canonical.chat import Opaque, Part, Reasoning, Refusal, Text, ToolCall
from providers.canonical.raw_json import DECODE_ERRORS, NULL
from providers.dialects.anthropic_messages.opaque_states import (
    NAME,
    CallState,
    read_citation,
    read_redacted,
    read_signature,
    write_call_state,
    write_citation,
    write_opaque,
    write_reasoning,
)

# Arguments that are no JSON object, where `input` must be one.
_UNPARSED = "_unparsed"
_TEXT_KEYS = frozenset({"type", "text"})


class _Block(Struct):
    type: str
    text: str | None = None
    citations: list[Raw] | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: Raw = Raw(b"{}")


_block_decoder = msgspec.json.Decoder(_Block)
_object = msgspec.json.Decoder(dict[str, Raw])
_string = msgspec.json.Decoder(str)


def read_block(raw: Raw) -> Part | CallState:
    """Raises msgspec.ValidationError for what is no block."""
    block = _block_decoder.decode(raw)
    match block.type:
        case "text":
            return Text(block.text or "", tuple(read_citation(each) for each in block.citations or ()))
        case "thinking":
            return Reasoning(block.thinking or "", read_signature(block.signature or ""))
        case "redacted_thinking":
            return read_redacted(block.data or "", raw)
        case "tool_use":
            return ToolCall(block.id or new_call_id(), block.name or "", read_input(block.input))
        case _:
            return Opaque(NAME, raw)


def write_blocks(parts: tuple[Part, ...]) -> Iterator[Any]:
    """The blocks of an answer."""
    for part in parts:
        match part:
            case Text():
                yield write_text(part)
            case Refusal():
                yield {"type": "text", "text": part.text}
            case Reasoning():
                yield write_reasoning(part)
            case ToolCall():
                if part.opaque_state is not None:
                    yield write_call_state(part.id, part.opaque_state)
                yield write_call(part)
            case Opaque():
                yield write_opaque(part)


def write_text(part: Text) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": part.text}
    if part.citations:
        block["citations"] = [write_citation(citation) for citation in part.citations]
    return block


def write_call(part: ToolCall) -> dict[str, Any]:
    return {"type": "tool_use", "id": part.id, "name": part.name, "input": write_input(part.arguments, part.custom)}


def write_input(arguments: str, custom: bool) -> Any:
    """`input` is an object; what a model wrote that is none is put into one, whole, under `_unparsed`."""
    if not arguments.strip():
        return {}
    return {_UNPARSED: arguments} if custom or not is_object(arguments) else Raw(arguments.encode())


def is_object(arguments: str) -> bool:
    try:
        _object.decode(arguments)
    except DECODE_ERRORS:
        return False
    return True


def is_unparsed(piece: str) -> bool:
    """Whether a piece of `input` is what write_input made of arguments that are no object: all of it."""
    return piece.startswith(f'{{"{_UNPARSED}":') and is_object(piece)


def read_input(raw: Raw) -> str:
    """Raises msgspec.ValidationError if `raw` is no object, nor null."""
    if raw == NULL:
        return "{}"
    fields = _object.decode(raw)
    if len(fields) == 1 and _UNPARSED in fields and bytes(fields[_UNPARSED]).startswith(b'"'):
        return _string.decode(fields[_UNPARSED])
    return bytes(raw).decode()


def new_call_id() -> str:
    """For a call of an engine that gave it no id."""
    return "call_" + uuid.uuid4().hex[:24]


def collapse_text(blocks: list[Any]) -> Any:
    """Blocks, or the text alone where that is all there is: engines that speak like Anthropic know it best."""
    only_block: Any = blocks[0] if len(blocks) == 1 else None
    return only_block["text"] if isinstance(only_block, dict) and only_block.keys() == _TEXT_KEYS else blocks  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
