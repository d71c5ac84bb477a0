"""JSON on lines of its own (application/x-ndjson), out of blocks split anywhere."""

from providers.canonical.errors import InvalidUpstreamResponse


class NdjsonLines:
    """feed() gives each line that is now whole, without blank ones. Raises Garbled if one grows over `limit_bytes`."""

    __slots__ = ("_buffer", "_limit_bytes")

    def __init__(self, limit_bytes: int = 32 * 1024 * 1024) -> None:
        self._buffer = b""
        self._limit_bytes = limit_bytes

    def feed(self, block: bytes) -> list[bytes]:
        *lines, self._buffer = (self._buffer + block).split(b"\n")
        if len(self._buffer) > self._limit_bytes:
            raise InvalidUpstreamResponse(f"The engine sent a line of more than {self._limit_bytes} bytes.")
        return [line for line in lines if line.strip()]

    def finish(self) -> list[bytes]:
        """What came after the last line end, if anything did."""
        remainder, self._buffer = self._buffer, b""
        return [remainder] if remainder.strip() else []
