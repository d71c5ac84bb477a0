"""CapturingRecord: a spool record that also keeps the response, to be stored for retries."""

from app.domain.exchange import Exchange
from app.recording.spool.spool_record import LargeWork, SpoolRecord
from app.store.redis.idempotent_responses import StoredResponse


class CapturingRecord:
    """Forwards to a spool record; keeps what the caller gets, up to `max_bytes`, and the exchange as it was recorded."""

    def __init__(self, spool_record: SpoolRecord, max_bytes: int) -> None:
        self.closed = spool_record.closed
        self.recorded_exchange: Exchange | None = None
        self._spool_record = spool_record
        self._bytes_left = max_bytes
        self._blocks: list[bytes] = []

    def append_response(self, data: bytes) -> None:
        self._spool_record.append_response(data)
        self._capture(data)

    async def append_large_response(self, data: bytes, large_work: LargeWork) -> None:
        self._capture(data)
        await self._spool_record.append_large_response(data, large_work)

    def close(self, exchange: Exchange) -> None:
        self._spool_record.close(exchange)
        self.closed = True
        self.recorded_exchange = self.recorded_exchange or exchange

    def stored_response(self, exchange: Exchange) -> StoredResponse | None:
        """The response as it is stored for retries; None: it is larger than `max_bytes`."""
        if self._bytes_left < 0:
            return None
        assignment = exchange.assignment
        return StoredResponse(
            inference_id=exchange.id,
            episode_id=exchange.episode_id,
            streamed=exchange.streamed,
            body=b"".join(self._blocks),
            served_provider=exchange.served_provider,
            served_model=exchange.served_model,
            dropped=exchange.dropped,
            status=exchange.status,
            structured_output=exchange.structured_output,
            reported_model=exchange.reported_model,
            emulated=exchange.emulated,
            variant=exchange.variant,
            served_variant=exchange.served_variant,
            experiment=None if assignment is None else assignment.experiment,
            experiment_version=None if assignment is None else assignment.version,
            not_enrolled=None if assignment is None else assignment.not_enrolled,
        )

    def _capture(self, data: bytes) -> None:
        self._bytes_left -= len(data)
        if self._bytes_left >= 0:
            self._blocks.append(data)
        else:
            self._blocks.clear()
