"""Hiding: what the gateway itself sent as a secret is taken out of whatever a host says back, whatever it looks like."""

import base64
import json
import re
import urllib.parse
from collections.abc import Iterable, Iterator
from typing import Any, cast

HIDDEN = "[masked]"

# Shorter ones protect nothing, and words of that length are everywhere; below the second length only whole words are hidden.
_SHORTEST = 4
_SHORT = 8
# Parts of a JSON credential that are no secrets, and are what an explanation is about.
_TOLD = re.compile(r"type|region|universe_domain|client_email|(quota_)?project_id|.*_(uri|url)")
# How hosts hide a part themselves: sk-ab***yz, sk-ab…yz, sk-ab...yz, sk-abXXXXyz.
_HALF_HIDDEN = re.compile(r"([A-Za-z0-9_\-+/=]{0,100})(?:\*{2,}|\.{3,}|[•…]+)([A-Za-z0-9_\-+/=]{0,100})|\b(\w{0,40}?)[Xx]{4,}(\w{0,40})\b")
_FEWEST_LEFT = 4
# Of one that is repeated in part: its first so many characters, and all that goes on from there like a secret.
_HEAD = 12
_GOES_ON = r"[A-Za-z0-9_\-+/=]*"


class Hiding:
    """Made where an error is read, of the secrets that its request went with."""

    def __init__(self, secrets: Iterable[str]) -> None:
        parts = {part for secret in secrets for part in _parts(secret) if len(part) >= _SHORTEST}
        self._parts = sorted(parts, key=len, reverse=True)

    def hide(self, text: str) -> str:
        """A message without them: whole, in part, in base64, or half hidden already."""
        if not self._parts or not text:
            return text
        return self._without_end(_HALF_HIDDEN.sub(self._half_hidden, self._without(text)))

    def hide_bytes(self, body: bytes) -> bytes:
        """Of a body that nobody has read yet: what is cut off of it later must not be the half of a secret."""
        if not any(part[:_HEAD].encode() in body for part in self._parts):
            return body
        return self._without(body.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def _without(self, text: str) -> str:
        for part in self._parts:
            if part in text:
                text = (
                    text.replace(part, HIDDEN)
                    if len(part) >= _SHORT
                    else re.sub(rf"(?<![A-Za-z0-9]){re.escape(part)}(?![A-Za-z0-9])", HIDDEN, text)
                )
        for part in self._parts:
            if len(part) > _HEAD + _FEWEST_LEFT and (head := part[:_HEAD]) in text:
                text = re.sub(re.escape(head) + _GOES_ON, HIDDEN, text)
        return text

    def _half_hidden(self, found: re.Match[str]) -> str:
        head, tail = found[1] or found[3] or "", found[2] or found[4] or ""
        if len(head) + len(tail) < _FEWEST_LEFT:
            return found[0]
        return HIDDEN if any(_begins(part, head) and part.endswith(tail) for part in self._parts) else found[0]

    def _without_end(self, text: str) -> str:
        """A text that was cut off amid a secret ends with the beginning of one."""
        for part in self._parts:
            for length in range(min(len(part), _HEAD, len(text)), _FEWEST_LEFT - 1, -1):
                if text.endswith(part[:length]) and not part[:length].isalpha():
                    return text[:-length] + HIDDEN
        return text


def _begins(part: str, head: str) -> bool:
    """`head` may have a word before it that sticks to it, as in `key=sk-ab***`."""
    return part.startswith(head) or part.startswith(head.rpartition("=")[2])


def _parts(secret: str) -> Iterator[str]:
    """All that shows a secret: itself, what a JSON one is made of, lines of a key, and how these are written elsewhere."""
    yield secret
    for value in _values(secret):
        yield value
        yield json.dumps(value)[1:-1]
        yield from (line for line in value.splitlines() if len(line) > _SHORT and not line.startswith("-----"))
    for each in (secret, *_values(secret)):
        yield urllib.parse.quote(each, safe="")
        yield from _base64(each)


def _values(secret: str) -> list[str]:
    """Strings of a JSON credential that are longer than what is a word by chance."""
    if not secret.startswith("{"):
        return []
    try:
        said = json.loads(secret)
    except ValueError:
        return []
    return list(_strings(said))


def _strings(said: Any) -> Iterator[str]:
    match said:
        case dict():
            for name, value in cast("dict[str, Any]", said).items():
                if not (isinstance(value, str) and _TOLD.fullmatch(name)):
                    yield from _strings(value)
        case list():
            for value in cast("list[Any]", said):
                yield from _strings(value)
        case str() if len(said) > _SHORT:
            yield said
        case _:
            pass


def _base64(text: str) -> Iterator[str]:
    """However many bytes stand before it, as a user's name does in Basic: the characters that are of it alone."""
    raw = text.encode()
    if len(raw) < _SHORT:
        return
    for before in range(3):
        coded = base64.b64encode(bytes(before) + raw).decode().rstrip("=")
        # The last character is of what follows too, unless it ends with a whole group.
        last = len(coded) if (before + len(raw)) % 3 == 0 else len(coded) - 1
        own = coded[(before * 8 + 5) // 6 : last]
        yield own
        yield own.replace("+", "-").replace("/", "_")
