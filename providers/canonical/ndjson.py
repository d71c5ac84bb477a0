"""Newline-delimited JSON (application/x-ndjson) out of blocks that are split anywhere."""

from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.slow_numbers import UNCOUNTED_BYTES, check_response_numbers


class NdjsonDecoder:
    """Decodes a stream into its lines, without blank ones. One per stream.

    feed() returns each line that is complete now. It raises InvalidUpstreamResponse if a line grows over `limit_bytes`:
    an engine must not be able to fill our memory. So it does for lines of numbers that take too long to read.
    """

    __slots__ = ("_buffer", "_limit_bytes")

    def __init__(self, limit_bytes: int = 32 * 1024 * 1024) -> None:
        self._buffer = b""
        self._limit_bytes = limit_bytes

    def feed(self, block: bytes) -> list[bytes]:
        block = self._buffer + block
        *lines, self._buffer = block.split(b"\n")
        if len(self._buffer) > self._limit_bytes:
            raise InvalidUpstreamResponse(f"The engine sent a line of more than {self._limit_bytes} bytes.")
        if block[UNCOUNTED_BYTES:]:
            check_response_numbers(lines)
        return [line for line in lines if line.strip()]

    def finish(self) -> list[bytes]:
        """The text after the last line end, if there is any."""
        remainder, self._buffer = self._buffer, b""
        check_response_numbers([remainder])
        return [remainder] if remainder.strip() else []
