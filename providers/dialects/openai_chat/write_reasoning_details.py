"""Writes `reasoning_details`: signatures and blocks of other dialects, beside a message. See read_reasoning_details.py."""

from collections.abc import Iterable
from typing import Any

import msgspec

from providers.canonical.carrier import encode_carrier
from providers.canonical.chat import Opaque, OpaqueState, Part, Reasoning, Refusal, Text, ToolCall
from providers.canonical.raw_json import DECODE_ERRORS
from providers.dialects.openai_chat.dialect_name import DIALECT
from providers.dialects.openai_chat.read_reasoning_details import TEXT_KEYS

_decode_entry = msgspec.json.Decoder(dict[str, Any]).decode


def write_details(parts: Iterable[tuple[Part, int]]) -> list[dict[str, Any]]:
    """The entries; empty if no part needs one. Each of `parts` comes with the number of characters that it adds to the content."""
    entries: list[dict[str, Any]] = []
    index = content_offset = last_entry_offset = 0
    has_opaque_state = False
    for part, length in parts:
        match part:
            case Reasoning() | Opaque():
                # Texts without an entry between them are one text to the reader.
                index += content_offset > last_entry_offset
                last_entry_offset = content_offset
                has_opaque_state = has_opaque_state or isinstance(part, Opaque) or part.opaque_state is not None
                entry = _write_entry(part)
                entries.append(entry if _is_engine_entry(entry) else {**entry, "index": index, "at": content_offset})
                index += 1
            case Text():
                content_offset += length
            case Refusal() | ToolCall():
                index += 1
    return entries if has_opaque_state else []


def _write_entry(part: Reasoning | Opaque) -> dict[str, Any]:
    if isinstance(part, Opaque):
        if part.origin == DIALECT:
            return msgspec.json.decode(part.raw)
        opaque_state = OpaqueState(part.origin, bytes(part.raw).decode())
        return {"type": "reasoning.encrypted", "data": encode_carrier(opaque_state, caller_dialect=DIALECT), "format": part.origin}
    opaque_state = part.opaque_state
    engine_entry = None if opaque_state is None or opaque_state.origin != DIALECT else _decode_engine_entry(opaque_state.data)
    if engine_entry is not None:
        return {**engine_entry, TEXT_KEYS[engine_entry["type"]]: part.text}
    entry: dict[str, Any] = {**part.extra}
    if opaque_state is not None and opaque_state.origin != DIALECT:
        entry["format"] = opaque_state.origin
    if opaque_state is None:
        return {**entry, "type": "reasoning.text", "text": part.text}
    if part.text:
        return {**entry, "type": "reasoning.text", "text": part.text, "signature": encode_carrier(opaque_state, caller_dialect=DIALECT)}
    return {**entry, "type": "reasoning.encrypted", "data": encode_carrier(opaque_state, caller_dialect=DIALECT)}


def _decode_engine_entry(data: str) -> dict[str, Any] | None:
    """The engine's own entry that an opaque state holds; None for a plain signature."""
    if not data.startswith("{"):
        return None
    try:
        entry = _decode_entry(data)
    except DECODE_ERRORS:
        return None
    kind = entry.get("type")
    return entry if isinstance(kind, str) and kind in TEXT_KEYS else None


def _is_engine_entry(entry: dict[str, Any]) -> bool:
    """Whether it is an engine's own entry: those have an index but no position in the content."""
    return "index" in entry and "at" not in entry
