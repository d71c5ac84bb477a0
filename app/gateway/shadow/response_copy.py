"""ResponseCopy: a spool record that also keeps the response, to be compared with that of a shadow."""

from app.domain.exchange import Exchange
from app.gateway.state.stages import ExchangeRecord
from app.recording.spool.spool_record import LargeWork

MAX_COPY_BYTES = 64 * 1024


class ResponseCopy:
    """Forwards to another record."""

    def __init__(self, record: ExchangeRecord) -> None:
        self.closed = record.closed
        self.outcome: str | None = None  # None: the exchange has not ended
        self._record = record
        self._blocks: list[bytes] = []
        self._size_bytes = 0

    def append_response(self, data: bytes) -> None:
        self._record.append_response(data)
        self._keep(data)

    async def append_large_response(self, data: bytes, large_work: LargeWork) -> None:
        self._keep(data)
        await self._record.append_large_response(data, large_work)

    def close(self, exchange: Exchange) -> None:
        self._record.close(exchange)
        self.closed = True
        self.outcome = self.outcome or exchange.outcome

    def response(self) -> bytes | None:
        """Returns the response as far as it came, or None if it is too long to be compared."""
        return None if self._size_bytes > MAX_COPY_BYTES else b"".join(self._blocks)

    def _keep(self, data: bytes) -> None:
        self._size_bytes += len(data)
        if self._size_bytes > MAX_COPY_BYTES:
            self._blocks.clear()
        else:
            self._blocks.append(data)
