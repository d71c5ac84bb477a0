"""JSON on lines of its own (application/x-ndjson), out of blocks split anywhere."""

from providers.errors import Garbled


class Lines:
    """feed() gives each line that is now whole, without blank ones. Raises Garbled if one grows over `limit_bytes`."""

    __slots__ = ("_limit", "_rest")

    def __init__(self, limit_bytes: int = 32 * 1024 * 1024) -> None:
        self._rest = b""
        self._limit = limit_bytes

    def feed(self, block: bytes) -> list[bytes]:
        *whole, self._rest = (self._rest + block).split(b"\n")
        if len(self._rest) > self._limit:
            raise Garbled(f"The engine sent a line of more than {self._limit} bytes.")
        return [line for line in whole if line.strip()]

    def end(self) -> list[bytes]:
        """What came after the last line end, if anything did."""
        rest, self._rest = self._rest, b""
        return [rest] if rest.strip() else []
