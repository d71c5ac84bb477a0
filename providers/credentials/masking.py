"""Hiding: what the gateway itself sent as a secret is taken out of whatever a host says back, whatever it looks like."""

import base64
import json
import re
import urllib.parse
from collections.abc import Iterable, Iterator
from typing import Any, cast

MASK = "[masked]"

# Shorter ones protect nothing, and words of that length are everywhere; below the second length only whole words are hidden.
_MIN_CHARS = 4
_WHOLE_WORD_BELOW_CHARS = 8
# Parts of a JSON credential that are no secrets, and are what an explanation is about.
_PUBLIC_FIELDS = re.compile(r"type|region|universe_domain|client_email|(quota_)?project_id|.*_(uri|url)")
# How hosts hide a part themselves: sk-ab***yz, sk-ab…yz, sk-ab...yz, sk-abXXXXyz.
_PARTLY_MASKED = re.compile(
    r"([A-Za-z0-9_\-+/=]{0,100})(?:\*{2,}|\.{3,}|[•…]+)([A-Za-z0-9_\-+/=]{0,100})|\b(\w{0,40}?)[Xx]{4,}(\w{0,40})\b"
)
_MIN_VISIBLE_CHARS = 4
# Of one that is repeated in part: its first so many characters, and all that goes on from there like a secret.
_PREFIX_CHARS = 12
_SECRET_CONTINUATION = r"[A-Za-z0-9_\-+/=]*"


class SecretMask:
    """Made where an error is read, of the secrets that its request went with."""

    def __init__(self, secrets: Iterable[str]) -> None:
        parts = {part for secret in secrets for part in _parts(secret) if len(part) >= _MIN_CHARS}
        self._parts = sorted(parts, key=len, reverse=True)

    def mask(self, text: str) -> str:
        """A message without them: whole, in part, in base64, or half hidden already."""
        if not self._parts or not text:
            return text
        return self._mask_cut_off_end(_PARTLY_MASKED.sub(self._mask_partly_masked, self._mask_parts(text)))

    def mask_bytes(self, body: bytes) -> bytes:
        """Of a body that nobody has read yet: what is cut off of it later must not be the half of a secret."""
        if not any(part[:_PREFIX_CHARS].encode() in body for part in self._parts):
            return body
        return self._mask_parts(body.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def _mask_parts(self, text: str) -> str:
        for part in self._parts:
            if part in text:
                text = (
                    text.replace(part, MASK)
                    if len(part) >= _WHOLE_WORD_BELOW_CHARS
                    else re.sub(rf"(?<![A-Za-z0-9]){re.escape(part)}(?![A-Za-z0-9])", MASK, text)
                )
        for part in self._parts:
            if len(part) > _PREFIX_CHARS + _MIN_VISIBLE_CHARS and (head := part[:_PREFIX_CHARS]) in text:
                text = re.sub(re.escape(head) + _SECRET_CONTINUATION, MASK, text)
        return text

    def _mask_partly_masked(self, found: re.Match[str]) -> str:
        head, tail = found[1] or found[3] or "", found[2] or found[4] or ""
        if len(head) + len(tail) < _MIN_VISIBLE_CHARS:
            return found[0]
        return MASK if any(_starts_part(part, head) and part.endswith(tail) for part in self._parts) else found[0]

    def _mask_cut_off_end(self, text: str) -> str:
        """A text that was cut off amid a secret ends with the beginning of one."""
        for part in self._parts:
            for length in range(min(len(part), _PREFIX_CHARS, len(text)), _MIN_VISIBLE_CHARS - 1, -1):
                if text.endswith(part[:length]) and not part[:length].isalpha():
                    return text[:-length] + MASK
        return text


def _starts_part(part: str, head: str) -> bool:
    """`head` may have a word before it that sticks to it, as in `key=sk-ab***`."""
    return part.startswith(head) or part.startswith(head.rpartition("=")[2])


def _parts(secret: str) -> Iterator[str]:
    """All that shows a secret: itself, what a JSON one is made of, lines of a key, and how these are written elsewhere."""
    yield secret
    for value in _values(secret):
        yield value
        yield json.dumps(value)[1:-1]
        yield from (line for line in value.splitlines() if len(line) > _WHOLE_WORD_BELOW_CHARS and not line.startswith("-----"))
    for each in (secret, *_values(secret)):
        yield urllib.parse.quote(each, safe="")
        yield from _base64(each)


def _values(secret: str) -> list[str]:
    """Strings of a JSON credential that are longer than what is a word by chance."""
    if not secret.startswith("{"):
        return []
    try:
        decoded = json.loads(secret)
    except ValueError:
        return []
    return list(_strings(decoded))


def _strings(node: Any) -> Iterator[str]:
    match node:
        case dict():
            for name, value in cast("dict[str, Any]", node).items():
                if not (isinstance(value, str) and _PUBLIC_FIELDS.fullmatch(name)):
                    yield from _strings(value)
        case list():
            for value in cast("list[Any]", node):
                yield from _strings(value)
        case str() if len(node) > _WHOLE_WORD_BELOW_CHARS:
            yield node
        case _:
            pass


def _base64(text: str) -> Iterator[str]:
    """However many bytes stand before it, as a user's name does in Basic: the characters that are of it alone."""
    raw = text.encode()
    if len(raw) < _WHOLE_WORD_BELOW_CHARS:
        return
    for offset in range(3):
        coded = base64.b64encode(bytes(offset) + raw).decode().rstrip("=")
        # The last character is of what follows too, unless it ends with a whole group.
        last = len(coded) if (offset + len(raw)) % 3 == 0 else len(coded) - 1
        own = coded[(offset * 8 + 5) // 6 : last]
        yield own
        yield own.replace("+", "-").replace("/", "_")
