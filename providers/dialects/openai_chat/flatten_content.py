"""The byte edit of content that is a list, as in Mistral's thinking models: text as a string, thinking as `reasoning_content`.

OpenAI's clients expect a string. If the list holds more than texts and thinking (references to tool results), the complete list is
added as `content_chunks`. Source: the recording mistral/17-thinking-chunks-stream.
"""

import re
from typing import Any

import msgspec
from msgspec import Raw

from providers.canonical.raw_json import NULL
from providers.dialects.openai_chat.response_schema import ContentPiece, content_texts

_NULL_OR_EMPTY = (NULL, Raw(b'""'))
_KNOWN_PIECES = frozenset({"text", "thinking", "refusal"})

# Log probabilities have a list of that name too, so a match does not prove that the content is a list.
find_content_list = re.compile(rb'"content"\s*:\s*\[').search

_decode_choices = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_pieces = msgspec.json.Decoder(list[ContentPiece]).decode


def flatten_content(choices: bytes, message_key: str) -> bytes:
    """The choices with flat content; the same object if no content is a list. `message_key` is `message` or `delta`."""
    decoded: list[dict[str, Any]] = _decode_choices(choices)
    changed = False
    for choice in decoded:
        message = _decode_object(choice[message_key]) if choice.get(message_key, NULL) != NULL else {}
        content = message.get("content", NULL)
        if bytes(content)[:1] == b"[":
            choice[message_key] = _flatten_message(message, content, is_message=message_key == "message")
            changed = True
    return msgspec.json.encode(decoded) if changed else choices


def _flatten_message(message: dict[str, Any], content: Raw, *, is_message: bool) -> dict[str, Any]:
    content_pieces = _decode_pieces(content)
    texts: dict[str, list[str]] = {}
    for kind, text in content_texts(content_pieces):
        texts.setdefault(kind, []).append(text)
    flattened = {key: value for key, value in message.items() if key != "content"}
    if "text" in texts or is_message:
        flattened["content"] = "".join(texts["text"]) if "text" in texts else None
    for kind, key in (("reasoning", "reasoning_content"), ("refusal", "refusal")):
        if kind in texts and flattened.get(key, NULL) in _NULL_OR_EMPTY:
            flattened[key] = "".join(texts[kind])
    if any(piece.type not in _KNOWN_PIECES for piece in content_pieces):
        flattened["content_chunks"] = content
    return flattened
