"""Unique indexes of reasoning details.

An engine may give several details the same index (OpenRouter does for one block), and OpenAI's own client merges those in a stream.
So the caller gets unique indexes, with the engine's index in a field beside, and the engine gets its own indexes back.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw

from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body

_ENGINE_INDEX_KEY = "narthex_index"
_ENGINE_INDEX_MARKER = f'"{_ENGINE_INDEX_KEY}"'.encode()

_decode_messages = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_decode_entries = msgspec.json.Decoder(list[dict[str, Any]]).decode


def with_unique_indexes(entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The details with unique indexes; unchanged if their indexes are unique already."""
    indexes = [entry.get("index") for entry in entries]
    if all(isinstance(index, int) for index in indexes) and len(set(indexes)) == len(indexes):
        return list(entries)
    return [{**entry, "index": position, _ENGINE_INDEX_KEY: entry.get("index")} for position, entry in enumerate(entries)]


def restore_engine_indexes(body: Body) -> None:
    """Puts the engine's own indexes back in a request."""
    if not body.has_value("messages") or _ENGINE_INDEX_MARKER not in bytes(as_raw(body["messages"])):
        return
    try:
        messages = _decode_messages(as_raw(body["messages"]))
        for message in messages:
            if message.get("reasoning_details", NULL) != NULL:
                restored = [_restore_entry(entry) for entry in _decode_entries(message["reasoning_details"])]
                message["reasoning_details"] = Raw(msgspec.json.encode(restored))
    except DECODE_ERRORS:
        return
    body["messages"] = messages


def _restore_entry(entry: dict[str, Any]) -> dict[str, Any]:
    if _ENGINE_INDEX_KEY not in entry:
        return entry
    entry_without_indexes = {key: value for key, value in entry.items() if key not in ("index", _ENGINE_INDEX_KEY)}
    return entry_without_indexes if entry[_ENGINE_INDEX_KEY] is None else {**entry_without_indexes, "index": entry[_ENGINE_INDEX_KEY]}
