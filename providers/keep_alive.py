"""Keep-alives: what a caller of a stream is sent while an engine is silent, so that nothing between us cuts the connection."""

from typing import ClassVar, Protocol

from providers.canonical.errors import NarthexError


class KeepAlive(Protocol):
    """The keep-alives of one stream."""

    edits_frames: ClassVar[bool]  # whether what is sent after the first of them goes through edit()

    def write(self, last_sent: bytes | None) -> bytes:
        """Whole frames. `last_sent` are the newest frames of the engine that the caller was sent; None or empty: there were none."""
        ...

    def edit(self, frames: bytes) -> bytes:
        """Whole frames of the engine, as they follow the keep-alives."""
        ...

    def write_failure(self, error: NarthexError) -> bytes:
        """The error as the end of a stream that holds nothing but keep-alives; empty, for CallerDialect.write_error_frame()."""
        ...


class ConstantKeepAlive:
    """The same frame each time, which clients pass over: it changes nothing of what follows."""

    edits_frames: ClassVar[bool] = False

    def __init__(self, frame: bytes) -> None:
        self._frame = frame

    def write(self, last_sent: bytes | None) -> bytes:
        return self._frame

    def edit(self, frames: bytes) -> bytes:
        return frames

    def write_failure(self, error: NarthexError) -> bytes:
        return b""


# Clients ignore a line that begins with a colon: https://html.spec.whatwg.org/multipage/server-sent-events.html, read 2026-11.
COMMENTS = ConstantKeepAlive(b": keep-alive\n\n")
