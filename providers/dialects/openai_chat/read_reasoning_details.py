"""Reads `reasoning_details`, which carry what chat has no field for: signatures and blocks of other dialects.

They are a field of the message, and clients send them back. Each entry of ours has a position among the parts (`index`) and in the content
(`at`, in characters), from which merge_parts() restores the order of the parts. Entries without a position are an engine's own
(OpenRouter): they come before the content, and go back as they came. If such an entry has more than a signature (a format, an id), all
of it but its text becomes the opaque state, so that callers of every dialect send it back completely.
Source: https://openrouter.ai/docs/use-cases/reasoning-tokens, read 2026-11.
"""

from typing import Any

import msgspec
from msgspec import Raw

from providers.canonical.carrier import decode_carrier
from providers.canonical.chat import Opaque, OpaqueState, Reasoning
from providers.canonical.raw_json import DECODE_ERRORS, NULL
from providers.dialects.openai_chat.dialect_name import DIALECT

_PLACED_ENTRY_KEYS = frozenset({"type", "text", "signature", "data", "index", "at"})
# The key of the text in each type of readable reasoning.
TEXT_KEYS = {"reasoning.text": "text", "reasoning.summary": "summary"}

_decode_list = msgspec.json.Decoder(list[dict[str, Any]]).decode


class Detail(msgspec.Struct, frozen=True):
    """A detail and its position: `index` and `content_offset` are None for an engine's own."""

    part: Reasoning | Opaque
    index: int | None
    content_offset: int | None


def read_details(raw: Raw) -> list[Detail]:
    """The details. A value that is not a list of details is ignored: the field is not part of the documented API."""
    return [read_detail(entry) for entry in decode_entries(raw)]


def decode_entries(raw: Raw) -> list[dict[str, Any]]:
    if raw is NULL or raw == NULL:
        return []
    try:
        return _decode_list(raw)
    except DECODE_ERRORS:
        return []


def read_detail(entry: dict[str, Any]) -> Detail:
    return (
        Detail(_read_placed_entry(entry), entry["index"], entry["at"])
        if has_position(entry)
        else Detail(_read_engine_entry(entry), None, None)
    )


def _read_engine_entry(entry: dict[str, Any]) -> Reasoning | Opaque:
    """An engine's own entry. If a caller of another dialect has carried it, its signature is a carrier of ours, read like our entries."""
    kind = text_entry_type(entry) or entry.get("type")
    opaque_text = entry.get("signature") or entry.get("data")
    if isinstance(opaque_text, str) and decode_carrier(opaque_text, caller_dialect=DIALECT).origin != DIALECT:
        return _read_placed_entry(entry)
    if text_entry_type(entry):
        return Reasoning(text_of(entry), engine_opaque_state(entry))
    present_keys = {key for key, value in entry.items() if value is not None}
    if kind == "reasoning.encrypted" and isinstance(opaque_text, str) and present_keys == {"type", "data"}:
        return Reasoning("", OpaqueState(DIALECT, opaque_text))
    return Opaque(DIALECT, Raw(msgspec.json.encode(entry)))


def text_entry_type(entry: dict[str, Any]) -> str:
    """The type of an entry with readable reasoning or its signature; "" for any other entry."""
    kind = entry.get("type")
    return (
        kind
        if isinstance(kind, str) and kind in TEXT_KEYS and isinstance(entry.get(TEXT_KEYS[kind]) or entry.get("signature"), str)
        else ""
    )


def text_of(entry: dict[str, Any]) -> str:
    text = entry.get(TEXT_KEYS[entry["type"]])
    return text if isinstance(text, str) else ""


def has_position(entry: dict[str, Any]) -> bool:
    """Whether a gateway like ours wrote the entry, and not an engine."""
    return isinstance(entry.get("at"), int) and isinstance(entry.get("index"), int)


def engine_opaque_state(entry: dict[str, Any]) -> OpaqueState | None:
    """An engine's own entry without its text; just the signature if there is nothing else."""
    kind = entry["type"]
    entry_without_text = {key: value for key, value in entry.items() if key != TEXT_KEYS[kind] and value is not None}
    if kind == "reasoning.text" and entry_without_text.keys() <= {"type", "signature", "index"}:
        signature = entry_without_text.get("signature")
        return OpaqueState(DIALECT, signature) if isinstance(signature, str) else None
    return OpaqueState(DIALECT, msgspec.json.encode(entry_without_text).decode())


def _read_placed_entry(entry: dict[str, Any]) -> Reasoning | Opaque:
    kind, text, signature, data = (entry.get(key) for key in ("type", "text", "signature", "data"))
    if kind == "reasoning.encrypted" and isinstance(data, str):
        opaque_state = decode_carrier(data, caller_dialect=DIALECT)
        return _read_opaque_block(opaque_state) or Reasoning("", opaque_state, _extra_fields(entry, opaque_state))
    if kind == "reasoning.text" and (isinstance(text, str) or isinstance(signature, str)):
        opaque_state = decode_carrier(signature, caller_dialect=DIALECT) if isinstance(signature, str) else None
        return Reasoning(text if isinstance(text, str) else "", opaque_state, _extra_fields(entry, opaque_state))
    block = {key: value for key, value in entry.items() if key not in ("index", "at")}
    return Opaque(DIALECT, Raw(msgspec.json.encode(block)))


def _read_opaque_block(opaque_state: OpaqueState) -> Opaque | None:
    """The block of another dialect, a JSON object with a type; None for a plain signature."""
    if not opaque_state.data.startswith("{"):
        return None
    try:
        block = msgspec.json.decode(opaque_state.data)
    except DECODE_ERRORS:
        return None
    return Opaque(opaque_state.origin, Raw(opaque_state.data.encode())) if "type" in block else None


def _extra_fields(entry: dict[str, Any], opaque_state: OpaqueState | None) -> dict[str, Raw]:
    known_keys = _PLACED_ENTRY_KEYS if opaque_state is None or opaque_state.origin == DIALECT else _PLACED_ENTRY_KEYS | {"format"}
    return {key: Raw(msgspec.json.encode(value)) for key, value in entry.items() if key not in known_keys and value is not None}
