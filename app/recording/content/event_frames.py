"""Frames of server-sent events in recorded content: their data apart from the lines around it."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import msgspec

DONE = b"[DONE]"  # the data of the last event of OpenAI's streams, which is not JSON
_EVENT_STREAM = re.compile(rb"\s*(?:data|event|id|retry)?:")
_LINE_END = re.compile(rb"\r\n|\n|\r")
_IDENTIFIER = re.compile(r"[A-Za-z0-9_.:/@-]{1,100}")


class EventData(NamedTuple):
    """The data of an event: its lines, joined."""

    data: bytes


def is_event_stream(data: bytes | bytearray) -> bool:
    return _EVENT_STREAM.match(data) is not None


def complete_frames_bytes(data: bytes | bytearray) -> int:
    """The length of the complete frames at a stream's beginning: up to its last blank line. 0 if it is not a stream, or has none."""
    if not is_event_stream(data):
        return 0
    # \r\r is a blank line too, but no engine writes it, and \r\n\r\n does not end in one of the others.
    ends = (data.rfind(b"\n\n") + 2, data.rfind(b"\r\n\r\n") + 4)
    return max(end for end in (0, *ends) if end not in (1, 3))


def split_frames(data: bytes) -> Iterator[bytes | EventData]:
    """The data of each event, and complete lines to keep as they are.

    An event's name is kept if its data has the same `type`, as in the wire formats: any other may be text, and so may comments and ids,
    which are withheld.
    """
    event_line = b""
    data_lines: list[bytes] = []
    lines = _LINE_END.split(data)
    if not lines[-1]:
        lines.pop()  # what follows the last line ending is not a line
    for line in (*lines, None):
        field, value = _split_field(line or b"")
        if field == b"data":
            data_lines.append(value)
            continue
        if data_lines or event_line:
            event_data = b"\n".join(data_lines)
            if event_line:
                yield event_line + b"\n" if _is_type_of(event_data, event_line) else _withheld_line(event_line)
            if data_lines:
                yield EventData(event_data)
            event_line = b""
            data_lines.clear()
        if line is None:
            return
        if not line:
            yield b"\n"
        elif field == b"event":
            event_line = b"event: " + value
        elif field == b"retry" and value.isdigit():
            yield b"retry: " + value + b"\n"
        else:
            yield _withheld_line(line)


def _split_field(line: bytes) -> tuple[bytes, bytes]:
    field, _, value = line.partition(b":")
    return field, value.removeprefix(b" ")


def _is_type_of(event_data: bytes, event_line: bytes) -> bool:
    try:
        value = msgspec.json.decode(event_data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    name = event_line.removeprefix(b"event: ").decode("latin-1")
    return isinstance(value, dict) and cast("dict[str, Any]", value).get("type") == name and _IDENTIFIER.fullmatch(name) is not None


def _withheld_line(line: bytes) -> bytes:
    return b": [withheld: %d bytes]\n" % len(line)
