"""Server-sent events: a stream of blocks to the data of each event, and data to a frame.

Source: https://html.spec.whatwg.org/multipage/server-sent-events.html, read 2026-11.
"""

from typing import Protocol

import msgspec

from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.raw_json import DECODE_ERRORS
from providers.canonical.slow_numbers import UNCOUNTED_BYTES, check_response_numbers

# The byte order mark, with which some hosts begin.
BOM = b"\xef\xbb\xbf"


class SSEDecoder:
    """Decodes server-sent events from blocks split anywhere: feed() returns the data of each event that is complete.

    Comments, ids, event names and retry times are dropped: no chat dialect needs them. Line ends may be LF, CRLF or CR.
    Data of several lines is joined to one: it is JSON, where a line end is white space, and it is sent on in one line.
    Events without a blank line between them are read if each is one line of JSON.
    A line that begins with `{` is data too: LMDeploy's proxy sends its errors so in the middle of a stream.
    Raises InvalidUpstreamResponse for an event of more than `limit_bytes`: an engine must not be able to fill our memory. Does so, too, for
    events of numbers that take too long to read.
    """

    __slots__ = ("_limit", "rest")

    def __init__(self, limit_bytes: int = 32 * 1024 * 1024) -> None:
        self.rest = b""  # of an event that is not complete
        self._limit = limit_bytes

    def feed(self, block: bytes) -> list[bytes]:
        if self.rest:
            block = self.rest + block
        if b"\r" in block:
            # A CR at the very end may be half of a CRLF: it waits for the next block.
            tail = b"\r" if block.endswith(b"\r") else b""
            block = block[: len(block) - len(tail)].replace(b"\r\n", b"\n").replace(b"\r", b"\n") + tail
        if b"}\ndata:" in block or b"}\nevent:" in block:
            block = _separate_events(block)
        *complete, self.rest = block.split(b"\n\n")
        if self.rest[:1] == b"{" and self.rest[-1:] == b"\n":
            complete.append(self.rest)
            self.rest = b""
        if len(self.rest) > self._limit:
            raise InvalidUpstreamResponse(f"The engine sent an event of more than {self._limit} bytes.")
        events = [data for frame in complete if (data := _event_data(frame)) is not None]
        if block[UNCOUNTED_BYTES:]:  # as those of few streams are; this asks without a call
            check_response_numbers(events)
        return events

    def finish(self) -> list[bytes]:
        """The data of a last event without the blank line after it: some engines end so, and the data is complete."""
        remaining, self.rest = _separate_events(self.rest.replace(b"\r", b"\n")), b""
        events = [data for frame in remaining.split(b"\n\n") if (data := _event_data(frame)) is not None]
        check_response_numbers(events)
        return events


def _separate_events(block: bytes) -> bytes:
    """The block with the blank lines between events that some servers leave out.

    A first line of data that is complete JSON is an event of its own; the first line of data of several is no JSON alone.
    """
    frames = block.split(b"\n\n")
    return b"\n\n".join([_separate(frame) if b"}\ndata:" in frame or b"}\nevent:" in frame else frame for frame in frames])


def _separate(frame: bytes) -> bytes:
    lines, separated, has_data = frame.split(b"\n"), list[bytes](), False
    for line, following in zip(lines, [*lines[1:], b""], strict=True):
        separated.append(line)
        is_data = line.removeprefix(BOM).startswith(b"data:")
        if is_data and not has_data and following.startswith((b"data:", b"event:")) and _is_json(line.removeprefix(BOM)[5:]):
            separated.append(b"")
        else:
            has_data = has_data or is_data
    return b"\n".join(separated)


def _is_json(text: bytes) -> bool:
    try:
        msgspec.json.decode(text)
    except DECODE_ERRORS:
        return False
    return True


def _event_data(frame: bytes) -> bytes | None:
    """Returns the data of a frame, or None for a frame without data or with empty data: neither is an event."""
    if frame.startswith(b"data: ") and b"\n" not in frame:
        return frame[6:] or None
    if frame.startswith(b"event: ") and frame.count(b"\n") == 1:  # as Anthropic and OpenAI's Responses write them
        _, is_data, data = frame.partition(b"\ndata: ")
        if is_data:
            return data or None
    lines = [line[5:].removeprefix(b" ") for line in frame.removeprefix(BOM).split(b"\n") if line.startswith(b"data:")]
    return b" ".join(line for line in lines if line) or (to_single_line(frame) if frame[:1] == b"{" else None)


def sse_frame(data: bytes) -> bytes:
    """One event. `data` must not contain a line end; see to_single_line()."""
    return b"data: " + data + b"\n\n"


def to_single_line(raw: bytes) -> bytes:
    """JSON without line ends, as a frame needs it. In JSON they are white space only: a string cannot contain them."""
    return raw.replace(b"\r", b" ").replace(b"\n", b" ")


class StreamUnwrapper(Protocol):
    """Takes a dialect's stream out of another framing that carries it, such as an AWS event stream. One per stream."""

    def feed(self, block: bytes) -> bytes:
        """The bytes of the inner stream that are complete now.

        Raises the UpstreamError that a frame reports, or InvalidUpstreamResponse, at the call after the one that returned all bytes
        before it. At the end of the stream, call it once more with no bytes.
        """
        ...
