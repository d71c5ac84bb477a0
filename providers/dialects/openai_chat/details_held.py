"""An engine's own details of a stream, told to the caller once they are whole, where the choice finishes.

OpenRouter tells them in pieces, each with its format again; OpenAI's own client appends what it is told twice, and makes one of those that
have an index in common (openai 2.x, lib/streaming/_deltas.py, read 2026-11): what it gives back then is no seal any more.
"""

from typing import Any

import msgspec
from msgspec import Raw

from providers.dialects.openai_chat.detail_numbers import numbered
from providers.dialects.openai_chat.details import TEXTS, is_placed, read_entries
from providers.wire import NULL

MARK = b'"reasoning_details"'

_choices = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_object = msgspec.json.Decoder(dict[str, Raw]).decode


class HeldDetails:
    """Of one stream."""

    def __init__(self) -> None:
        self._entries: dict[int, list[dict[str, Any]]] = {}

    def held(self, choices: bytes) -> bytes:
        """Choices of a chunk, without details that are in pieces; with all of them where the choice finishes."""
        if MARK not in choices and not self._entries:
            return choices
        told = _choices(choices)
        changed = False
        for choice in told:
            raw = choice.get("delta", NULL)
            delta = {} if raw == NULL else _object(raw)
            details = read_entries(delta.get("reasoning_details", NULL))
            index = msgspec.json.decode(choice.get("index", NULL)) or 0
            own = bool(details) and not any(map(is_placed, details))
            if own:
                del delta["reasoning_details"]
                _join(self._entries.setdefault(index, []), details)
            ended = choice.get("finish_reason", NULL) != NULL
            if ended and index in self._entries:
                delta["reasoning_details"] = Raw(msgspec.json.encode(numbered(self._entries.pop(index))))
                own = True
            if own:
                choice["delta"] = Raw(msgspec.json.encode(delta))
                changed = True
        return msgspec.json.encode(told) if changed else choices


def _join(known: list[dict[str, Any]], details: list[dict[str, Any]]) -> None:
    for entry in details:
        last = next((each for each in reversed(known) if _names(each) == _names(entry)), None)
        if last is None or entry.get("type") not in TEXTS:
            known.append(dict(entry))
            continue
        word = TEXTS[entry["type"]]
        texts = [text for each in (last, entry) if isinstance(text := each.get(word), str)]
        last |= {key: value for key, value in entry.items() if value is not None}
        if texts:
            last[word] = "".join(texts)


def _names(entry: dict[str, Any]) -> tuple[str, str]:
    """What pieces of one have in common."""
    return str(entry.get("type")), str(entry.get("index"))
