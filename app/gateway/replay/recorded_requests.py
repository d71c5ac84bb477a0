"""RecordedRequests: the originals of a replay and what was recorded of its own requests, with what their responses say."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator

from sqlalchemy.ext.asyncio import AsyncEngine

from app.gateway.pipeline.gateway import Gateway
from app.gateway.replay.own_request import MAX_RESPONSE_BYTES
from app.gateway.replay.replay_runs import Item, RecordedRequest, read_request
from app.gateway.replay.stored_request import NotRunnable
from app.gateway.response_translation.written import WrittenChoice, read_written
from app.store.formats.content_packing import unpack_within

# Larger requests take turns, so that they do not fill the memory.
_SMALL_BYTES = 1024 * 1024
_LARGE_AT_ONCE = 2


class RecordedRequests:
    """Reads them as the recording keeps them now."""

    def __init__(self, gateway: Gateway, database: AsyncEngine) -> None:
        self._gateway = gateway
        self._database = database
        self._large_slots = asyncio.Semaphore(_LARGE_AT_ONCE)

    async def find_response(self, item: Item) -> RecordedRequest | None:
        """Returns the record of the request that another process made, or None if there is none."""
        if item.inference_id is None:
            return None
        async with self._database.connect() as connection:
            return await read_request(connection, item.inference_id)

    async def read(self, id: str) -> RecordedRequest:
        """Raises NotRunnable if its content is not kept in full any more."""
        async with self._database.connect() as connection:
            found = await read_request(connection, id)
        if found is None or found.policy is None:
            raise NotRunnable("expired")
        if found.policy != "full":
            raise NotRunnable(found.policy)
        if found.team_content != "full":
            raise NotRunnable("team_policy")
        if found.is_deleted:
            raise NotRunnable("deleted")
        if found.request is None:
            raise NotRunnable("lost")
        return found

    @contextlib.asynccontextmanager
    async def open_body(self, original: RecordedRequest) -> AsyncGenerator[bytes]:
        """The request's body. Raises NotRunnable if it is longer than a caller's may be."""
        assert original.request is not None
        body = await asyncio.to_thread(unpack_within, original.request, _SMALL_BYTES)
        if body is not None:
            yield body
            return
        async with self._large_slots:
            body = await asyncio.to_thread(unpack_within, original.request, self._gateway.settings.max_body_bytes)
            if body is None:
                raise NotRunnable("too_long")
            yield body

    async def recorded_writing(self, recorded: RecordedRequest) -> tuple[WrittenChoice, ...] | None:
        """Returns what the recorded response says.

        Returns None if the response was an error, is not kept, or is longer than what is compared.
        """
        if recorded.response is None or recorded.policy != "full" or recorded.outcome != "answered":
            return None
        response = await asyncio.to_thread(unpack_within, recorded.response, MAX_RESPONSE_BYTES)
        return None if response is None else await self.written(recorded, response, streamed=recorded.streamed)

    async def written(self, original: RecordedRequest, response: bytes, *, streamed: bool) -> tuple[WrittenChoice, ...] | None:
        large_requests = self._gateway.large_requests.of_team(original.team_id)
        return await large_requests.run_if_large(len(response), read_written, original.route, response, streamed=streamed)
