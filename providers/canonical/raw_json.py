"""Body: a JSON object of which only the top level is decoded; its values stay the sender's own bytes until they are read."""

import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from providers.canonical.errors import InvalidUpstreamResponse

_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
_encode = msgspec.json.encode
NULL = msgspec.Raw(b"null")

# All exceptions that msgspec raises for invalid JSON. The last two are neither its own nor have a base class in common with those.
DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

# JSON allows an escape of half a surrogate pair (a character that an engine's tokens split), which no Unicode text can hold. The
# first group passes over every other escape, so that what follows an escaped backslash is not mistaken for one; it never backtracks.
_LONE_SURROGATE = re.compile(
    rb"((?:[^\\]++|\\(?!u[dD][89a-fA-F][0-9a-fA-F]{2}).|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})*+)"
    rb"(\\u[dD][89a-fA-F][0-9a-fA-F]{2})",
    re.DOTALL,
)
# Where callers are told of a half: a body full of escapes takes 20 ms for each MB.
_MAX_SEARCHED_BYTES = 512 * 1024


class Body(dict[str, Any]):
    """The top level of a JSON object. Untouched values are the sender's bytes (msgspec.Raw), replaced ones are Python values."""

    __slots__ = ()

    @classmethod
    def read(cls, raw: bytes) -> "Body":
        """Raises msgspec.DecodeError, or msgspec.ValidationError if `raw` is not an object, or another of DECODE_ERRORS."""
        return cls(_decoder.decode(raw))

    @classmethod
    def read_response(cls, raw: bytes) -> "Body":
        """An engine's response, whose Unicode may need repair_unicode(). Raises InvalidUpstreamResponse if it is not an object."""
        try:
            return cls(_decoder.decode(raw))
        except DECODE_ERRORS:
            pass
        try:
            return cls(_decoder.decode(_decode_json_string(repair_unicode(raw))))
        except DECODE_ERRORS as error:
            raise InvalidUpstreamResponse(f"The engine's response is not the JSON object that its API specifies: {error}.") from None

    def write(self) -> bytes:
        return _encode(self)

    def write_in_steps(self) -> bytes:
        """Like write(), for a large body in a thread: during one call into C, however long, no other thread runs."""
        pieces: list[bytes] = []
        for key, value in self.items():
            pieces += (b"," if pieces else b"{", _encode(key), b":")
            if isinstance(value, list) and value:
                for number, item in enumerate(cast("list[Any]", value)):
                    pieces += (b"," if number else b"[", _encode(item))
                pieces.append(b"]")
            else:
                pieces.append(_encode(value))
        return b"".join((*pieces, b"}")) if pieces else b"{}"

    def has_value(self, key: str) -> bool:
        """Whether the key is present with a value other than null, which counts as absent everywhere."""
        value = self.get(key)
        return value is not None and value != NULL

    def value(self, key: str) -> Any:
        """The decoded value of a key; None if it is absent or null."""
        value = self.get(key)
        return msgspec.json.decode(value) if isinstance(value, msgspec.Raw) else value


def merge_object(original: msgspec.Raw | None, added: Mapping[str, Any]) -> Any:
    """An object with our keys added or replaced; `original` None or null counts as empty."""
    return dict(added) if original is None or original == NULL else {**_decoder.decode(original), **added}


def find_lone_surrogate(raw: bytes) -> int | None:
    """The offset of the first escaped half of a surrogate pair; None if there is none in the first 512 KiB."""
    match = _LONE_SURROGATE.match(raw, 0, _MAX_SEARCHED_BYTES)
    return match.start(2) if match else None


def repair_unicode(raw: bytes) -> bytes:
    """JSON in which U+FFFD replaces each escaped half of a surrogate pair, and bytes that are not UTF-8."""
    text = raw.decode("utf-8", "replace").encode()
    pieces: list[bytes] = []
    position = 0
    while match := _LONE_SURROGATE.match(text, position):
        pieces += (match[1], b"\\ufffd")
        position = match.end()
    return b"".join((*pieces, text[position:]))


def _decode_json_string(raw: bytes) -> bytes:
    """The JSON inside a JSON string, which is how LMDeploy's proxy reports an unknown model; anything else is unchanged.

    Source: lmdeploy/serve/proxy/proxy.py, read 2026-11.
    """
    return msgspec.json.decode(raw, type=str).encode() if raw[:1] == b'"' else raw
