"""Bytes on the wire: a JSON object whose top level alone is decoded, and frames of server-sent events."""

import re
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from providers.errors import Garbled

_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
_encode = msgspec.json.encode
NULL = msgspec.Raw(b"null")

# All that msgspec raises for bytes that are not the JSON expected; the last two are neither its own errors nor below a common one.
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

# JSON allows an escape of half a surrogate pair (a character cut in two by an engine's tokens); no Unicode text can hold it.
# Read escape by escape, so that what follows an escaped backslash is not taken for one.
_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.DOTALL
)


def half_pair(raw: bytes) -> int | None:
    """Where in `raw` the first escaped half of a surrogate pair stands; None if nowhere."""
    return next((found.start() for found in _ESCAPE.finditer(raw) if found["half"]), None)


def mended(raw: bytes) -> bytes:
    """JSON with each escaped half of a surrogate pair, and bytes that are no UTF-8, said as U+FFFD, the replacement character."""
    return _ESCAPE.sub(lambda found: b"\\ufffd" if found["half"] else found[0], raw.decode("utf-8", "replace").encode())


def on_one_line(raw: bytes) -> bytes:
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
    def read_reply(cls, raw: bytes) -> "Body":
        """What an engine answered, which may hold half a surrogate pair. Raises Garbled if it is no JSON object."""
        try:
            return cls(_decoder.decode(raw))
        except UNREADABLE:
            pass
        try:
            return cls(_decoder.decode(_out_of_string(mended(raw))))
        except UNREADABLE as fault:
            raise Garbled(f"The engine's answer is not the JSON object that its API promises: {fault}.") from None

    def write(self) -> bytes:
        return _encode(self)

    def said(self, key: str) -> bool:
        """Whether a key is there with a value other than null: null means not said."""
        value = self.get(key)
        return value is not None and value != NULL

    def value(self, key: str) -> Any:
        """The value of a key as Python; None if it was not said."""
        value = self.get(key)
        return msgspec.json.decode(value) if isinstance(value, msgspec.Raw) else value


def _out_of_string(raw: bytes) -> bytes:
    """JSON within a JSON string, as LMDeploy's proxy tells a model that it does not have (lmdeploy/serve/proxy/proxy.py, read 2026-11)."""
    return msgspec.json.decode(raw, type=str).encode() if raw[:1] == b'"' else raw


_BOM = b"\xef\xbb\xbf"


class Frames:
    """Server-sent events out of blocks split anywhere: feed() gives the data of each event that is now whole.

    Comments, ids, event names and retry times are passed over: no dialect of chat needs them. Line ends may be LF, CRLF or CR.
    Data over several lines is given on one: it is JSON, where a line end is white space, and is sent on in one line.
    A line that is itself the beginning of an object counts as data: LMDeploy's proxy tells its errors so, in the midst of a stream.
    Raises Garbled if one event grows over `limit_bytes`: an engine must not be able to fill our memory.
    Source: https://html.spec.whatwg.org/multipage/server-sent-events.html, read 2026-11.
    """

    __slots__ = ("_limit", "_rest")

    def __init__(self, limit_bytes: int = 32 * 1024 * 1024) -> None:
        self._rest = b""
        self._limit = limit_bytes

    def feed(self, block: bytes) -> list[bytes]:
        if self._rest:
            block = self._rest + block
        if b"\r" in block:
            # A CR at the very end may be half of a CRLF: it waits for the next block.
            tail = b"\r" if block.endswith(b"\r") else b""
            block = block[: len(block) - len(tail)].replace(b"\r\n", b"\n").replace(b"\r", b"\n") + tail
        *whole, self._rest = block.split(b"\n\n")
        if self._rest[:1] == b"{" and self._rest[-1:] == b"\n":
            whole.append(self._rest)
            self._rest = b""
        if len(self._rest) > self._limit:
            raise Garbled(f"The engine sent an event of more than {self._limit} bytes.")
        return [data for frame in whole if (data := _data(frame)) is not None]

    def end(self) -> list[bytes]:
        """An event that the stream ended without a blank line after: some engines do, and its data is whole none the less."""
        rest, self._rest = self._rest.replace(b"\r", b"\n"), b""
        return [data for frame in rest.split(b"\n\n") if (data := _data(frame)) is not None]


def _data(frame: bytes) -> bytes | None:
    """None for an event without data, or with none in it: the latter is not an event either."""
    if frame.startswith(b"data: ") and b"\n" not in frame:
        return frame[6:] or None
    if frame.startswith(b"event: ") and frame.count(b"\n") == 1:  # as Anthropic and OpenAI's Responses write them
        _, is_data, data = frame.partition(b"\ndata: ")
        if is_data:
            return data or None
    lines = [line[5:].removeprefix(b" ") for line in frame.removeprefix(_BOM).split(b"\n") if line.startswith(b"data:")]
    return b" ".join(line for line in lines if line) or (on_one_line(frame) if frame[:1] == b"{" else None)


def frame(data: bytes) -> bytes:
    """One event; `data` must hold no line end (JSON as we write it never does)."""
    return b"data: " + data + b"\n\n"


class Unwrapping(Protocol):
    """Takes a stream out of the frames of another that carries it. One per stream."""

    def feed(self, block: bytes) -> bytes:
        """What of the inner stream is whole now. Raises the UpstreamError that a frame tells, or Garbled, once all before it was given:

        by the next call, which at the stream's end is one without bytes.
        """
        ...


def merged(said: msgspec.Raw | None, more: Mapping[str, Any]) -> Any:
    """An object that a caller may have sent, with keys of ours in it."""
    return dict(more) if said is None or said == NULL else {**_decoder.decode(said), **more}
