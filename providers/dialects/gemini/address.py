"""Writes into a body what the address of a request says: the model, and whether to stream. Every other API has both there."""

import msgspec

_WHITE_SPACE = b" \t\r\n"


def write_address(raw: bytes, model: str, *, stream: bool) -> bytes:
    """The body with both fields at its end, where they hold whatever it said before. What is no object stays as it is."""
    end = _last_character(raw, len(raw))
    if end < 0 or raw[end] != ord("}"):
        return raw
    before = _last_character(raw, end)
    separator = b"" if before < 0 or raw[before] == ord("{") else b","
    fields = b'"model":%b,"stream":%b}' % (msgspec.json.encode(model), b"true" if stream else b"false")
    return b"".join((memoryview(raw)[:end], separator, fields))


def _last_character(raw: bytes, end: int) -> int:
    """The index of the last character before `end` that is no white space; negative: there is none."""
    index = end - 1
    while index >= 0 and raw[index] in _WHITE_SPACE:
        index -= 1
    return index
