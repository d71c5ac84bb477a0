"""The byte edit of content that an engine tells as a list, as Mistral does where it thinks: text as text, thinking as `reasoning_content`.

OpenAI's clients know a message's content as a string alone. Where the list holds more than texts and thinking (references to what tools
gave), it stands whole beside them, as `content_chunks`. Source: /shared/exchanges/mistral/17-thinking-chunks-stream.
"""

import re
from typing import Any

import msgspec
from msgspec import Raw

from providers.dialects.openai_chat.shapes import Piece, pieces
from providers.wire import NULL

_NULL_OR_EMPTY = (NULL, Raw(b'""'))
_PLAIN = frozenset({"text", "thinking", "refusal"})

# Log probabilities have a list of that name too.
find_list = re.compile(rb'"content"\s*:\s*\[').search

_choices = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_object = msgspec.json.Decoder(dict[str, Raw]).decode
_list = msgspec.json.Decoder(list[Piece]).decode


def with_plain_content(choices: bytes, inside: str) -> bytes:
    """`inside`: message or delta. The same bytes where no content is a list."""
    told: list[dict[str, Any]] = _choices(choices)
    changed = False
    for choice in told:
        said = _object(choice[inside]) if choice.get(inside, NULL) != NULL else {}
        content = said.get("content", NULL)
        if bytes(content)[:1] == b"[":
            choice[inside] = _plain(said, content, whole=inside == "message")
            changed = True
    return msgspec.json.encode(told) if changed else choices


def _plain(said: dict[str, Any], content: Raw, *, whole: bool) -> dict[str, Any]:
    listed = _list(content)
    texts: dict[str, list[str]] = {}
    for kind, text in pieces(listed):
        texts.setdefault(kind, []).append(text)
    rest = {key: value for key, value in said.items() if key != "content"}
    if "text" in texts or whole:
        rest["content"] = "".join(texts["text"]) if "text" in texts else None
    for kind, key in (("reasoning", "reasoning_content"), ("refusal", "refusal")):
        if kind in texts and rest.get(key, NULL) in _NULL_OR_EMPTY:
            rest[key] = "".join(texts[kind])
    if any(piece.type not in _PLAIN for piece in listed):
        rest["content_chunks"] = content
    return rest
