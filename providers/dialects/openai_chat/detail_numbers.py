"""The numbers of details: an engine may give several the same (OpenRouter: of one block), and OpenAI's own client makes one of these in
a stream. The caller is told each by a number of its own, with the engine's beside it, which the engine gets back.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw

from providers.rest import as_raw
from providers.wire import NULL, UNREADABLE, Body

_WAS = "narthex_index"
_MARK = f'"{_WAS}"'.encode()

_messages = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_entries = msgspec.json.Decoder(list[dict[str, Any]]).decode


def numbered(entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """As they are, where each has a number that no other has."""
    numbers = [entry.get("index") for entry in entries]
    if all(isinstance(number, int) for number in numbers) and len(set(numbers)) == len(numbers):
        return list(entries)
    return [{**entry, "index": at, _WAS: entry.get("index")} for at, entry in enumerate(entries)]


def restore_numbers(body: Body) -> None:
    """In a request: the engine's own again."""
    if not body.said("messages") or _MARK not in bytes(as_raw(body["messages"])):
        return
    try:
        messages = _messages(as_raw(body["messages"]))
        for message in messages:
            if message.get("reasoning_details", NULL) != NULL:
                restored = [_restored(entry) for entry in _entries(message["reasoning_details"])]
                message["reasoning_details"] = Raw(msgspec.json.encode(restored))
    except UNREADABLE:
        return
    body["messages"] = messages


def _restored(entry: dict[str, Any]) -> dict[str, Any]:
    if _WAS not in entry:
        return entry
    rest = {key: value for key, value in entry.items() if key not in ("index", _WAS)}
    return rest if entry[_WAS] is None else {**rest, "index": entry[_WAS]}
