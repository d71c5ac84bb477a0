"""Collects an engine's own reasoning details in a stream and sends them complete, on the chunk that finishes the choice.

OpenRouter sends them in pieces, each with its format. OpenAI's own client concatenates repeated values and merges entries of one index
(openai 2.x, lib/streaming/_deltas.py, read 2026-11), so the signature that it sends back would no longer be valid.
"""

from typing import Any

import msgspec
from msgspec import Raw

from providers.canonical.raw_json import NULL
from providers.dialects.openai_chat.read_reasoning_details import TEXT_KEYS, decode_entries, has_position
from providers.dialects.openai_chat.reasoning_detail_indexes import with_unique_indexes

REASONING_DETAILS_KEY = b'"reasoning_details"'

_decode_choices = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode


class ReasoningDetailsBuffer:
    """The details of one stream that have come so far, by choice."""

    def __init__(self) -> None:
        self._entries: dict[int, list[dict[str, Any]]] = {}

    @property
    def holds_details(self) -> bool:
        return bool(self._entries)

    def buffer_details(self, choices: bytes) -> bytes:
        """The choices of a chunk without partial details, and with all details of a choice that finishes."""
        if REASONING_DETAILS_KEY not in choices and not self._entries:
            return choices
        decoded = _decode_choices(choices)
        changed = False
        for choice in decoded:
            raw = choice.get("delta", NULL)
            delta = {} if raw == NULL else _decode_object(raw)
            details = decode_entries(delta.get("reasoning_details", NULL))
            index = msgspec.json.decode(choice.get("index", NULL)) or 0
            delta_changed = bool(details) and not any(map(has_position, details))
            if delta_changed:
                del delta["reasoning_details"]
                _merge_entries(self._entries.setdefault(index, []), details)
            is_finished = choice.get("finish_reason", NULL) != NULL
            if is_finished and index in self._entries:
                delta["reasoning_details"] = Raw(msgspec.json.encode(with_unique_indexes(self._entries.pop(index))))
                delta_changed = True
            if delta_changed:
                choice["delta"] = Raw(msgspec.json.encode(delta))
                changed = True
        return msgspec.json.encode(decoded) if changed else choices


def _merge_entries(merged: list[dict[str, Any]], details: list[dict[str, Any]]) -> None:
    for entry in details:
        previous = next((each for each in reversed(merged) if _entry_key(each) == _entry_key(entry)), None)
        if previous is None or entry.get("type") not in TEXT_KEYS:
            merged.append(dict(entry))
            continue
        text_key = TEXT_KEYS[entry["type"]]
        texts = [text for each in (previous, entry) if isinstance(text := each.get(text_key), str)]
        previous |= {key: value for key, value in entry.items() if value is not None}
        if texts:
            previous[text_key] = "".join(texts)


def _entry_key(entry: dict[str, Any]) -> tuple[str, str]:
    """The type and index, which the pieces of one entry share."""
    return str(entry.get("type")), str(entry.get("index"))
