"""`reasoning_details`: what chat has no place for, told beside a message so that its client gives it back: seals, blocks of other dialects.

Each entry tells its place among the parts (`index`) and in the content (`at`, in characters), so that the parts can be put together again
as they were. Entries without a place are an engine's own (OpenRouter): they come before the content, and go back as they came. Of one
that says more than a signature (a format, an id), all but its text is the seal, so that callers of every dialect give back all of it.
Source: https://openrouter.ai/docs/use-cases/reasoning-tokens, read 2026-11.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from providers.canonical.carrier import decode_carrier, encode_carrier
from providers.canonical.chat import Opaque, OpaqueState, Part, Reasoning, Refusal, Text, ToolCall
from providers.canonical.raw_json import DECODE_ERRORS, NULL

_DIALECT = "openai_chat"
_PLACED_ENTRY_KEYS = frozenset({"type", "text", "signature", "data", "index", "at"})
# Where each type of reasoning that can be read has its text.
TEXT_KEYS = {"reasoning.text": "text", "reasoning.summary": "summary"}

_decode_list = msgspec.json.Decoder(list[dict[str, Any]]).decode
_decode_entry = msgspec.json.Decoder(dict[str, Any]).decode


def write_details(parts: Iterable[tuple[Part, int]]) -> list[dict[str, Any]]:
    """`parts` each with the number of characters that it adds to the content. Empty if nothing needs it."""
    entries: list[dict[str, Any]] = []
    index = content_offset = last_entry_offset = 0
    has_opaque_state = False
    for part, length in parts:
        match part:
            case Reasoning() | Opaque():
                # Texts without an entry between them are one to whoever puts the parts together.
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
        if part.origin == _DIALECT:
            return msgspec.json.decode(part.raw)
        opaque_state = OpaqueState(part.origin, bytes(part.raw).decode())
        return {"type": "reasoning.encrypted", "data": encode_carrier(opaque_state, caller_dialect=_DIALECT), "format": part.origin}
    opaque_state = part.opaque_state
    engine_entry = None if opaque_state is None or opaque_state.origin != _DIALECT else _decode_engine_entry(opaque_state.data)
    if engine_entry is not None:
        return {**engine_entry, TEXT_KEYS[engine_entry["type"]]: part.text}
    entry: dict[str, Any] = {**part.extra}
    if opaque_state is not None and opaque_state.origin != _DIALECT:
        entry["format"] = opaque_state.origin
    if opaque_state is None:
        return {**entry, "type": "reasoning.text", "text": part.text}
    if part.text:
        return {**entry, "type": "reasoning.text", "text": part.text, "signature": encode_carrier(opaque_state, caller_dialect=_DIALECT)}
    return {**entry, "type": "reasoning.encrypted", "data": encode_carrier(opaque_state, caller_dialect=_DIALECT)}


def _decode_engine_entry(data: str) -> dict[str, Any] | None:
    """An engine's own entry, which a seal holds; None for a mere signature."""
    if not data.startswith("{"):
        return None
    try:
        entry = _decode_entry(data)
    except DECODE_ERRORS:
        return None
    kind = entry.get("type")
    return entry if isinstance(kind, str) and kind in TEXT_KEYS else None


def _is_engine_entry(entry: dict[str, Any]) -> bool:
    """An engine's own counts its entries, and knows no places."""
    return "index" in entry and "at" not in entry


class Detail(msgspec.Struct, frozen=True):
    """`index` and `at` None: an engine's own."""

    part: Reasoning | Opaque
    index: int | None
    content_offset: int | None


def read_details(raw: Raw) -> list[Detail]:
    """What is no list of details is passed over: it is no part of the documented API."""
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
    """Of an engine's own entry. What it says beyond a signature cannot stand beside a seal through a caller of another dialect."""
    kind = text_entry_type(entry) or entry.get("type")
    opaque_text = entry.get("signature") or entry.get("data")
    if isinstance(opaque_text, str) and decode_carrier(opaque_text, caller_dialect=_DIALECT).origin != _DIALECT:
        return _read_placed_entry(entry)
    if text_entry_type(entry):
        return Reasoning(text_of(entry), engine_opaque_state(entry))
    present_keys = {key for key, value in entry.items() if value is not None}
    if kind == "reasoning.encrypted" and isinstance(opaque_text, str) and present_keys == {"type", "data"}:
        return Reasoning("", OpaqueState(_DIALECT, opaque_text))
    return Opaque(_DIALECT, Raw(msgspec.json.encode(entry)))


def text_entry_type(entry: dict[str, Any]) -> str:
    """The type of an entry that tells reasoning in words, or its signature; "" for any other."""
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
    """Whether a gateway like ours wrote it, and not an engine."""
    return isinstance(entry.get("at"), int) and isinstance(entry.get("index"), int)


def engine_opaque_state(entry: dict[str, Any]) -> OpaqueState | None:
    """Of an engine's own entry, all but its text; its mere signature, where it says no more."""
    kind = entry["type"]
    entry_without_text = {key: value for key, value in entry.items() if key != TEXT_KEYS[kind] and value is not None}
    if kind == "reasoning.text" and entry_without_text.keys() <= {"type", "signature", "index"}:
        signature = entry_without_text.get("signature")
        return OpaqueState(_DIALECT, signature) if isinstance(signature, str) else None
    return OpaqueState(_DIALECT, msgspec.json.encode(entry_without_text).decode())


def _read_placed_entry(entry: dict[str, Any]) -> Reasoning | Opaque:
    kind, text, signature, data = (entry.get(key) for key in ("type", "text", "signature", "data"))
    if kind == "reasoning.encrypted" and isinstance(data, str):
        opaque_state = decode_carrier(data, caller_dialect=_DIALECT)
        return _read_opaque_block(opaque_state) or Reasoning("", opaque_state, _extra_fields(entry, opaque_state))
    if kind == "reasoning.text" and (isinstance(text, str) or isinstance(signature, str)):
        opaque_state = decode_carrier(signature, caller_dialect=_DIALECT) if isinstance(signature, str) else None
        return Reasoning(text if isinstance(text, str) else "", opaque_state, _extra_fields(entry, opaque_state))
    block = {key: value for key, value in entry.items() if key not in ("index", "at")}
    return Opaque(_DIALECT, Raw(msgspec.json.encode(block)))


def _read_opaque_block(opaque_state: OpaqueState) -> Opaque | None:
    """A block of another dialect is a JSON object with a type; what is merely sealed is not."""
    if not opaque_state.data.startswith("{"):
        return None
    try:
        block = msgspec.json.decode(opaque_state.data)
    except DECODE_ERRORS:
        return None
    return Opaque(opaque_state.origin, Raw(opaque_state.data.encode())) if "type" in block else None


def _extra_fields(entry: dict[str, Any], opaque_state: OpaqueState | None) -> dict[str, Raw]:
    known_keys = _PLACED_ENTRY_KEYS if opaque_state is None or opaque_state.origin == _DIALECT else _PLACED_ENTRY_KEYS | {"format"}
    return {key: Raw(msgspec.json.encode(value)) for key, value in entry.items() if key not in known_keys and value is not None}


def merge_parts(details: Sequence[Detail], texts: Sequence[Text], other_parts: Sequence[Refusal | ToolCall]) -> list[Part]:
    """The parts in their order: reasoning and opaque ones at their places in the content, refusal and calls where indexes leave room."""
    if all(not detail.content_offset for detail in details) and all(not detail.index or detail.index < len(details) for detail in details):
        return [*(detail.part for detail in sorted(details, key=_detail_index)), *texts, *other_parts]
    content = Text("".join(text.text for text in texts), tuple(citation for text in texts for citation in text.citations))
    pending = deque(other_parts)
    parts: list[Part] = []
    written_until = 0
    for detail in sorted(details, key=_detail_index):
        offset = min(detail.content_offset or 0, len(content.text))
        if offset > written_until:
            parts.append(_slice_text(content, written_until, offset))
            written_until = offset
        while pending and len(parts) < (detail.index or 0):
            parts.append(pending.popleft())
        parts.append(detail.part)
    if written_until < len(content.text):
        parts.append(_slice_text(content, written_until, len(content.text)))
    return [*parts, *pending]


def _detail_index(detail: Detail) -> int:
    return -1 if detail.index is None else detail.index


def _slice_text(content: Text, start: int, end: int) -> Text:
    """A piece of the text, with what is cited for it; citations without a place go with the last."""
    is_last = end == len(content.text)
    citations = [
        each
        for each in content.citations
        if (is_last if each.start is None else start <= each.start < end or (is_last and each.start >= end))
    ]
    return Text(
        content.text[start:end],
        tuple(
            each if each.start is None or each.end is None else replace(each, start=each.start - start, end=each.end - start)
            for each in citations
        ),
    )
