"""The functions of native.c in Python: what runs without it, and what it is held against. See providers/wire/__init__.py."""

import json
import re

MOST_BYTES = 32_768
MOST_EVENTS = 128

_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,5})\r\n").match
_STRING = rb'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})[^"\\\x00-\x1f]*+)*+"'
_NULL = rb'"(?!(?:%b)")[a-z_]{1,40}": ?null'
_DELTA = rb'"(?:content|reasoning_content|refusal)": ?%b|%b' % (_STRING, _NULL % b"text|reasoning|reasoning_details")
_INDEX = rb'"index": ?(?:0|[1-9][0-9]{0,3})'
_OTHER = _NULL % b"index|delta|text|error|reasoning|reasoning_details"


def _choices_pattern(content: bytes) -> re.Pattern[bytes]:
    """The choices of a chunk: one, with an index and this content, each once, and other members that are null."""
    member = rb"(?:%b|%b)" % (content, _OTHER)
    return re.compile(rb" ?\[\{(?:%b, ?)*+%b(?:, ?%b)*+\}\]" % (member, _INDEX, member))


_is_plain_chat = _choices_pattern(rb'"delta": ?\{(?:(?:%b)(?:, ?(?:%b))*+)?\}' % (_DELTA, _DELTA)).fullmatch
_is_plain_completion = _choices_pattern(rb'"text": ?%b' % _STRING).fullmatch
_written_texts = re.compile(rb'"(?:content|reasoning_content|refusal|text)": ?(%b)' % _STRING).findall


def relay(data: bytes, rest: bytes, before: bytes, after: bytes, prefix: bytes, is_chat: bool) -> tuple[bytes, bytes, bytes, int] | None:
    if max(len(data), len(rest), len(before), len(after), len(prefix)) > MOST_BYTES:
        return None
    content = _read_chunks(data)
    if content is None:
        return None
    *events, rest = (rest + content).split(b"\n\n")
    if len(events) > MOST_EVENTS or b"\n" in rest or b"\r" in rest:
        return None
    written, frames = 0, list[bytes]()
    before, is_plain, key = b"data: " + before, *((_is_plain_chat, b'"delta":') if is_chat else (_is_plain_completion, b'"text":'))
    for event in events:
        choices = event[len(before) : len(event) - len(after)]
        if len(event) < len(before) + len(after) or not (event.startswith(before) and event.endswith(after)):
            return None
        if is_plain(choices) is None or choices.count(key) != 1:
            return None
        size = _written_bytes(choices)
        if size is None:
            return None
        written += size
        frames += (prefix, choices, b"}\n\n")
    sent = b"".join(frames)
    return b"%x\r\n%b\r\n" % (len(sent), sent) if sent else b"", sent, rest, written


def _read_chunks(data: bytes) -> bytes | None:
    """The content of the HTTP chunks that `data` consists of."""
    contents, start = list[bytes](), 0
    while start < len(data):
        size = _CHUNK_SIZE(data, start)
        if size is None:
            return None
        start = size.end()
        end = start + int(size[1], 16)
        if end == start or data[end : end + 2] != b"\r\n":
            return None
        contents.append(data[start:end])
        start = end + 2
    return contents[0] if len(contents) == 1 else b"".join(contents)


def _written_bytes(choices: bytes) -> int | None:
    """How long the texts of choices are in UTF-8, unescaped, or None if they are no texts."""
    if not choices.isascii():
        try:
            choices.decode()
        except UnicodeDecodeError:
            return None
    written = 0
    for quoted in _written_texts(choices):
        if b"\\" not in quoted:
            written += len(quoted) - 2
            continue
        try:
            written += len(json.loads(quoted).encode())
        except UnicodeEncodeError:  # half of a surrogate pair
            return None
    return written
