"""What a container streams, out of the frames in which SageMaker sends it: raw bytes, cut anywhere."""

import msgspec

from providers.aws_events import Message, Unwrapper
from providers.errors import Garbled
from providers.wire import UNREADABLE, frame


def unwrapping() -> Unwrapper:
    return Unwrapper(_payload)


class LinesUnwrapping:
    """providers.wire.Unwrapping for LMI's chats, which come as JSON on lines of their own unless the container is told otherwise.

    They become the server-sent events that they are in OpenAI's API; those that are such already stay as they are.
    Source: docs.djl.ai, "Chat Completions API Schema", read 2026-11.
    """

    __slots__ = ("_limit", "_parts", "_rest")

    def __init__(self, limit_bytes: int = 32 * 1024 * 1024) -> None:
        self._parts = unwrapping()
        self._rest = b""
        self._limit = limit_bytes

    def feed(self, block: bytes) -> bytes:
        *lines, self._rest = (self._rest + self._parts.feed(block)).split(b"\n")
        if len(self._rest) > self._limit:
            raise Garbled(f"The engine sent a line of more than {self._limit} bytes.")
        if not block and _is_whole(self._rest):  # the stream ends, and nothing says that its last line has to
            lines.append(self._rest)
            self._rest = b""
        return b"".join(frame(line.strip()) if line.lstrip()[:1] == b"{" else line + b"\n" for line in lines)


def _is_whole(line: bytes) -> bool:
    try:
        msgspec.json.decode(line)
    except UNREADABLE:
        return False
    return True


def _payload(message: Message) -> bytes:
    """Kinds of events that it does not have yet say nothing to us."""
    return message.payload if message.headers.get(":event-type") == "PayloadPart" else b""
