"""Bytes on the wire: a JSON object whose top level alone is decoded, and frames of server-sent events."""

import re
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from providers.canonical.errors import InvalidUpstreamResponse

_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
_encode = msgspec.json.encode
NULL = msgspec.Raw(b"null")

# All that msgspec raises for bytes that are not the JSON expected; the last two are neither its own errors nor below a common one.
DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

# JSON allows an escape of half a surrogate pair (a character cut in two by an engine's tokens); no Unicode text can hold it.
# Read escape by escape, so that what follows an escaped backslash is not taken for one.
_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.DOTALL
)


def find_lone_surrogate(raw: bytes) -> int | None:
    """Where in `raw` the first escaped half of a surrogate pair stands; None if nowhere."""
    return next((match.start() for match in _ESCAPE.finditer(raw) if match["half"]), None)


def repair_unicode(raw: bytes) -> bytes:
    """JSON with each escaped half of a surrogate pair, and bytes that are no UTF-8, said as U+FFFD, the replacement character."""
    return _ESCAPE.sub(lambda found: b"\\ufffd" if found["half"] else found[0], raw.decode("utf-8", "replace").encode())


def to_single_line(raw: bytes) -> bytes:
    """JSON without line ends, as a frame needs it: within JSON they are white space, for a string cannot hold them."""
    return raw.replace(b"\r", b" ").replace(b"\n", b" ")


class Body(dict[str, Any]):
    """The top level of a JSON object: untouched values are the sender's own bytes (msgspec.Raw), replaced ones are Python values."""

    __slots__ = ()

    @classmethod
    def read(cls, raw: bytes) -> "Body":
        """Raises msgspec.DecodeError or msgspec.ValidationError if `raw` is no JSON object."""
        return cls(_decoder.decode(raw))

    @classmethod
    def read_response(cls, raw: bytes) -> "Body":
        """What an engine answered, which may hold half a surrogate pair. Raises Garbled if it is no JSON object."""
        try:
            return cls(_decoder.decode(raw))
        except DECODE_ERRORS:
            pass
        try:
            return cls(_decoder.decode(_decode_json_string(repair_unicode(raw))))
        except DECODE_ERRORS as fault:
            raise InvalidUpstreamResponse(f"The engine's answer is not the JSON object that its API promises: {fault}.") from None

    def write(self) -> bytes:
        return _encode(self)

    def has_value(self, key: str) -> bool:
        """Whether a key is there with a value other than null: null means not said."""
        value = self.get(key)
        return value is not None and value != NULL

    def value(self, key: str) -> Any:
        """The value of a key as Python; None if it was not said."""
        value = self.get(key)
        return msgspec.json.decode(value) if isinstance(value, msgspec.Raw) else value


def _decode_json_string(raw: bytes) -> bytes:
    """JSON within a JSON string, as LMDeploy's proxy tells a model that it does not have (lmdeploy/serve/proxy/proxy.py, read 2026-11)."""
    return msgspec.json.decode(raw, type=str).encode() if raw[:1] == b'"' else raw


_BOM = b"\xef\xbb\xbf"


class SSEDecoder:
    """Server-sent events out of blocks split anywhere: feed() gives the data of each event that is now whole.

    Comments, ids, event names and retry times are passed over: no dialect of chat needs them. Line ends may be LF, CRLF or CR.
    Data over several lines is given on one: it is JSON, where a line end is white space, and is sent on in one line.
    A line that is itself the beginning of an object counts as data: LMDeploy's proxy tells its errors so, in the midst of a stream.
    Raises Garbled if one event grows over `limit_bytes`: an engine must not be able to fill our memory.
    Source: https://html.spec.whatwg.org/multipage/server-sent-events.html, read 2026-11.
    """

    __slots__ = ("_buffer", "_limit")

    def __init__(self, limit_bytes: int = 32 * 1024 * 1024) -> None:
        self._buffer = b""
        self._limit = limit_bytes

    def feed(self, block: bytes) -> list[bytes]:
        if self._buffer:
            block = self._buffer + block
        if b"\r" in block:
            # A CR at the very end may be half of a CRLF: it waits for the next block.
            tail = b"\r" if block.endswith(b"\r") else b""
            block = block[: len(block) - len(tail)].replace(b"\r\n", b"\n").replace(b"\r", b"\n") + tail
        *complete, self._buffer = block.split(b"\n\n")
        if self._buffer[:1] == b"{" and self._buffer[-1:] == b"\n":
            complete.append(self._buffer)
            self._buffer = b""
        if len(self._buffer) > self._limit:
            raise InvalidUpstreamResponse(f"The engine sent an event of more than {self._limit} bytes.")
        return [data for frame in complete if (data := _event_data(frame)) is not None]

    def finish(self) -> list[bytes]:
        """An event that the stream ended without a blank line after: some engines do, and its data is whole none the less."""
        remaining, self._buffer = self._buffer.replace(b"\r", b"\n"), b""
        return [data for frame in remaining.split(b"\n\n") if (data := _event_data(frame)) is not None]


def _event_data(frame: bytes) -> bytes | None:
    """None for an event without data, or with none in it: the latter is not an event either."""
    if frame.startswith(b"data: ") and b"\n" not in frame:
        return frame[6:] or None
    if frame.startswith(b"event: ") and frame.count(b"\n") == 1:  # as Anthropic and OpenAI's Responses write them
        _, is_data, data = frame.partition(b"\ndata: ")
        if is_data:
            return data or None
    lines = [line[5:].removeprefix(b" ") for line in frame.removeprefix(_BOM).split(b"\n") if line.startswith(b"data:")]
    return b" ".join(line for line in lines if line) or (to_single_line(frame) if frame[:1] == b"{" else None)


def sse_frame(data: bytes) -> bytes:
    """One event; `data` must hold no line end (JSON as we write it never does)."""
    return b"data: " + data + b"\n\n"


class StreamUnwrapper(Protocol):
    """Takes a stream out of the frames of another that carries it. One per stream."""

    def feed(self, block: bytes) -> bytes:
        """What of the inner stream is whole now. Raises the UpstreamError that a frame tells, or Garbled, once all before it was given:

        by the next call, which at the stream's end is one without bytes.
        """
        ...


def merge_object(original: msgspec.Raw | None, added: Mapping[str, Any]) -> Any:
    """An object that a caller may have sent, with keys of ours in it."""
    return dict(added) if original is None or original == NULL else {**_decoder.decode(original), **added}
