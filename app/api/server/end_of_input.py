"""The end of a connection's input: a request that cannot be read, or a caller who has shut down its sending side.

The requests before it are answered in order; then comes the error, if there is one, and the connection is closed.

A caller who shuts down only its sending side (a script with `nc -N`) looks like one who has gone: from both comes a FIN. Whoever has
gone answers what is sent with a reset, so something is sent that HTTP/1.1 allows at that point, and the kernel is asked for the
connection's state. Only connections that end while requests are in progress cost this.

Over TLS whoever ends the sending side has gone: asyncio's TLS closes both directions, whatever its protocol wants.
"""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from app.api.server.http_call import HttpCall
from app.api.server.inference_protocol import InferenceProtocol
from app.domain.model_address import GOOGLE_PATHS
from providers.canonical.errors import NarthexError
from providers.catalogue import DIALECTS

# Before a response: an interim one, which every client of HTTP/1.1 must be able to read (RFC 9110, section 15.2).
_INTERIM_RESPONSE = b"HTTP/1.1 100 Continue\r\n\r\n"
# Within a stream: the size of the next chunk may begin with zeros (RFC 9112, section 7.1).
_BEGIN_OF_CHUNK_SIZE = b"0"
# Linux's numbers: only the transport opens connections, so only it imports `socket`. The first byte of struct tcp_info is the state.
# Sources: include/uapi/linux/in.h, include/uapi/linux/tcp.h and include/net/tcp_states.h of Linux, read 2026-11.
_IPPROTO_TCP, _TCP_INFO, _TCP_CLOSE = 6, 11, 7
_GOOGLE_PATHS = tuple(path.encode() for path in GOOGLE_PATHS)
_TENSORZERO_PATHS = (b"/inference", b"/feedback")
_FIRST_CHECK_S = 0.01
_MAX_CHECK_S = 0.5
_MAX_IGNORED_BYTES = 1024 * 1024


class _IgnoringParser:
    """Reads nothing from what follows: reading goes on only so that a disconnect is noticed. Too much of it closes the connection."""

    def __init__(self, close: Callable[[], None]) -> None:
        self._close = close
        self._ignored_bytes = 0

    def feed_data(self, data: bytes) -> None:
        self._ignored_bytes += len(data)
        if self._ignored_bytes > _MAX_IGNORED_BYTES:
            self._close()


class EndOfInputProtocol(InferenceProtocol):
    """end_input() with an error rejects what follows the requests that are complete."""

    _final_error: NarthexError | None = None
    _check_timer: asyncio.TimerHandle | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        if self._check_timer is not None:
            self._check_timer.cancel()
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Whether the connection stays open, for responses."""
        if self.scheme == "https":
            return False
        newest: Any = self.cycle
        if newest is None or newest.response_complete or (newest.more_body and not self.pipeline):
            return False  # nothing is in progress, or a request that will never be complete
        if self._check_timer is None:
            active: Any = self.active_cycle
            is_inference = type(active) is HttpCall
            if not (active.speaks_http_1_1 if is_inference else active.scope["http_version"] == "1.1"):
                return False  # there is nothing that may be sent, so whether it has gone cannot be found out
            if not self.input_ended:
                self.end_input(None)
            if not active.response_started:
                self.transport.write(_INTERIM_RESPONSE)
            elif is_inference and active.is_chunked_stream:  # whose next chunk may have one more zero
                self.transport.write(_BEGIN_OF_CHUNK_SIZE)
            self._check_timer = self.loop.call_later(_FIRST_CHECK_S, self._check_presence, _FIRST_CHECK_S)
        return True

    def end_input(self, error: NarthexError | None) -> None:
        """Answer the complete requests, then send the error and close. An error is not sent into a response that has begun."""
        newest: Any = self.cycle
        if newest is None or newest.response_complete:
            self._close_with(None if newest is not None and newest.more_body else error)
            return
        if newest.more_body:
            if not self.pipeline:
                self._close_with(None if newest.response_started else error)
                return
            self.cut_off = newest
        self.parser = cast(Any, _IgnoringParser(self.transport.close))
        self._final_error = error
        self.input_ended = True

    def end_connection(self) -> None:
        self._close_with(self._final_error)

    def _close_with(self, error: NarthexError | None) -> None:
        if error is not None:
            body = DIALECTS[self._dialect_name()].write_error(error)
            headers = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body)
            self.transport.write(STATUS_LINE[error.status] + headers + body)
        self.transport.close()

    def _dialect_name(self) -> str:
        """The API in whose shape the caller expects an error, by as much of the newest head as has come."""
        if (self.url or b"").startswith(b"/v1/messages") or any(name == b"anthropic-version" for name, _ in self.headers or ()):
            return "anthropic_messages"
        if (self.url or b"").startswith(_GOOGLE_PATHS) or any(name == b"x-goog-api-key" for name, _ in self.headers or ()):
            return "gemini"
        return "tensorzero_inference" if self.url in _TENSORZERO_PATHS else "openai_chat"

    def _check_presence(self, after_s: float) -> None:
        if self.transport.is_closing():
            return
        connection = self.transport.get_extra_info("socket")
        try:
            has_gone = connection.getsockopt(_IPPROTO_TCP, _TCP_INFO, 1)[0] == _TCP_CLOSE
        except OSError:  # no TCP
            has_gone = True
        if has_gone:
            self.transport.abort()
            return
        after_s = min(after_s * 2, _MAX_CHECK_S)
        self._check_timer = self.loop.call_later(after_s, self._check_presence, after_s)
