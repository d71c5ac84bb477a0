"""SecretMask: removes the secrets that the gateway sent from what a host returns, whatever they look like."""

import base64
import json
import re
import urllib.parse
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

MASK = "[masked]"

# Shorter secrets protect nothing, and are found in any text; below the second length only complete words are masked.
_MIN_CHARS = 4
_WHOLE_WORD_BELOW_CHARS = 8
# Fields of a JSON credential that are not secret, and that explanations need.
_PUBLIC_FIELDS = re.compile(r"type|region|universe_domain|client_email|(quota_)?project_id|.*_(uri|url)")
# Secrets that hosts have masked in part (sk-ab***yz, sk-ab…yz, sk-ab...yz, sk-abXXXXyz): what stands for the rest, and the characters
# that may stand beside it. One pattern for it all would try every character of a text as the beginning, up to 100 steps each.
_REDACTION = re.compile(r"\*{2,}|\.{3,}|[•…]+")
_BESIDE_REDACTION = re.compile(r"[A-Za-z0-9_\-+/=]{0,100}")
_X_REDACTION = re.compile(r"[Xx]{4,}")
_MAX_BESIDE_X_CHARS = 40
_BESIDE_X_REDACTION = re.compile(rf"\w{{0,{_MAX_BESIDE_X_CHARS + 1}}}")
_MIN_VISIBLE_CHARS = 4
# Messages have a few redactions. The rest of a text with more is masked as a whole: it is no message, and each one takes a search.
_MAX_REDACTIONS = 500
# A secret that is repeated in part: the length of its beginning, and the characters that may follow it.
_PREFIX_CHARS = 12
_SECRET_CONTINUATION = r"[A-Za-z0-9_\-+/=]*"


class SecretMask:
    """Masks the secrets of one request in the response to it. Made only where an error is read."""

    def __init__(self, secrets: Iterable[str]) -> None:
        parts = {part for secret in secrets for part in _parts(secret) if len(part) >= _MIN_CHARS}
        self._parts = sorted(parts, key=len, reverse=True)

    def mask(self, text: str) -> str:
        """The text with the secrets masked: complete, in part, in base64, or masked in part by the host. Linear in the text's length."""
        if not self._parts or not text:
            return text
        text = self._mask_around(_REDACTION, _beside_redaction, self._mask_parts(text))
        return self._mask_cut_off_end(self._mask_around(_X_REDACTION, _beside_x_redaction, text))

    def mask_bytes(self, body: bytes) -> bytes:
        """Masks a body before it is read, because a later cut could leave half of a secret."""
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

    def _mask_around(self, redaction: re.Pattern[str], find_beside: Callable[[str, int, int, int], tuple[int, int]], text: str) -> str:
        """Masks each redaction together with the beginning and the end of a secret beside it."""
        pieces: list[str] = []
        kept = consumed = 0
        for count, match in enumerate(redaction.finditer(text)):
            start, end = match.span()
            if start < consumed:
                continue
            if count >= _MAX_REDACTIONS:
                return "".join((*pieces, text[kept:consumed], MASK))
            begin, consumed = find_beside(text, start, end, consumed)
            head, tail = text[begin:start], text[end:consumed]
            if len(head) + len(tail) < _MIN_VISIBLE_CHARS:
                continue
            if any(_starts_part(part, head) and part.endswith(tail) for part in self._parts):
                pieces += (text[kept:begin], MASK)
                kept = consumed
        return "".join((*pieces, text[kept:])) if pieces else text

    def _mask_cut_off_end(self, text: str) -> str:
        """Masks the beginning of a secret at the end of the text, which was cut off there."""
        for part in self._parts:
            for length in range(min(len(part), _PREFIX_CHARS, len(text)), _MIN_VISIBLE_CHARS - 1, -1):
                if text.endswith(part[:length]) and not part[:length].isalpha():
                    return text[:-length] + MASK
        return text


def _beside_redaction(text: str, start: int, end: int, consumed: int) -> tuple[int, int]:
    """Returns where the characters beside text[start:end] that may belong to a secret begin, and where they end.

    They do not begin before `consumed`.
    """
    return start - _count_before(_BESIDE_REDACTION, text[max(consumed, start - 100) : start]), _end_after(_BESIDE_REDACTION, text, end)


def _beside_x_redaction(text: str, start: int, end: int, consumed: int) -> tuple[int, int]:
    """The same for X, which is a letter: what is beside it must be a complete word, and not a long one, or else nothing is."""
    begin = start - _count_before(_BESIDE_X_REDACTION, text[max(0, start - _MAX_BESIDE_X_CHARS - 1) : start])
    last = _end_after(_BESIDE_X_REDACTION, text, end)
    is_word = begin >= consumed and start - begin <= _MAX_BESIDE_X_CHARS and last - end <= _MAX_BESIDE_X_CHARS
    return (begin, last) if is_word else (start, end)


def _count_before(beside: re.Pattern[str], before: str) -> int:
    match = beside.match(before[::-1])
    return match.end() if match else 0


def _end_after(beside: re.Pattern[str], text: str, end: int) -> int:
    match = beside.match(text, end)
    return match.end() if match else end


def _starts_part(part: str, head: str) -> bool:
    """Whether the secret begins with `head`, which may include a prefix, as in `key=sk-ab***`."""
    return part.startswith(head) or part.startswith(head.rpartition("=")[2])


def _parts(secret: str) -> Iterator[str]:
    """Every text that reveals a secret: itself, the values of a JSON one, the lines of a key, and their encodings."""
    yield secret
    for value in _values(secret):
        yield value
        yield json.dumps(value)[1:-1]
        yield from (line for line in value.splitlines() if len(line) > _WHOLE_WORD_BELOW_CHARS and not line.startswith("-----"))
    for each in (secret, *_values(secret)):
        yield urllib.parse.quote(each, safe="")
        yield from _base64(each)


def _values(secret: str) -> list[str]:
    """The strings of a JSON credential that are too long to be ordinary words."""
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
    """The base64 characters that depend on the text alone, for each alignment: in Basic, a user name precedes it."""
    raw = text.encode()
    if len(raw) < _WHOLE_WORD_BELOW_CHARS:
        return
    for offset in range(3):
        coded = base64.b64encode(bytes(offset) + raw).decode().rstrip("=")
        # The last character depends on what follows too, unless the text ends with a complete group.
        last = len(coded) if (offset + len(raw)) % 3 == 0 else len(coded) - 1
        own = coded[(offset * 8 + 5) // 6 : last]
        yield own
        yield own.replace("+", "-").replace("/", "_")
