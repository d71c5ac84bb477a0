"""The earlier turns of a conversation of the Responses API that a recorded request continues, read from the records."""

from collections.abc import Sequence

from msgspec import Raw
from sqlalchemy.ext.asyncio import AsyncEngine

from app.datasets.reasons import Skipped
from app.gateway.large_body.large_requests import LargeRequests
from app.gateway.responses_state.conversations import inference_id_of, read_recorded_turn
from app.gateway.responses_state.history import ConversationTurn, load_history
from app.gateway.responses_state.item_references import resolve_references, unresolved_references
from app.settings import Settings
from app.store.records.recorded_responses import find_recorded_response
from providers.canonical.errors import InvalidRequest, UnknownResponse
from providers.dialect import InboundRequest
from providers.dialects.openai_responses.input_items import prepend_items
from providers.transport.loop_turns import LoopTurns

_ROUTE = "openai_responses"


class HistoryReader:
    """Reads histories of at most `max_bytes`."""

    def __init__(self, settings: Settings, database: AsyncEngine, max_bytes: int) -> None:
        self._database = database
        self._large_requests = LargeRequests(settings, LoopTurns())
        self._max_bytes = max_bytes

    def close(self) -> None:
        self._large_requests.close()

    async def add_to(self, request: InboundRequest, team_id: str) -> Sequence[str]:
        """Put the history before the input of the request. Returns the inferences that it is from.

        Raises Skipped if a turn is not kept or all are too long, and RecordsUnavailable.
        """
        turns = _Turns(self._database, team_id, self._max_bytes)
        large_requests = self._large_requests.of_team(team_id)
        earlier: list[Raw] = []
        try:
            if request.previous_response_id is not None:
                earlier = (await load_history(request.previous_response_id, turns.find, self._max_bytes, large_requests)).items
            items = prepend_items(request.body, earlier)
            references = unresolved_references(items)
            if references:
                await resolve_references(items, references, turns.find, _unknown_items, self._max_bytes, large_requests)
        except (InvalidRequest, UnknownResponse):
            raise Skipped("history") from None
        return list(dict.fromkeys(turns.ids))


class _Turns:
    """The turns of one conversation."""

    def __init__(self, database: AsyncEngine, team_id: str, max_bytes: int) -> None:
        self.ids: list[str] = []  # of those that were read
        self._database = database
        self._team_id = team_id
        self._max_bytes = max_bytes
        self._read_bytes = 0

    async def find(self, id: str) -> ConversationTurn:
        inference_id = inference_id_of(id)
        left_bytes = self._max_bytes - self._read_bytes
        if inference_id is None:
            raise UnknownResponse(id)
        if left_bytes <= 0:
            raise Skipped("too_large")
        row = await find_recorded_response(self._database, inference_id, self._team_id, _ROUTE, left_bytes)
        if row is None:
            raise UnknownResponse(id)
        turn = read_recorded_turn(id, row)
        self._read_bytes += len(row.request or b"") + len(row.response or b"")
        self.ids.append(inference_id)
        return turn


async def _unknown_items(item_ids: Sequence[str]) -> Sequence[None]:
    """The index of ids that engines created is in Redis, and not for long."""
    return [None] * len(item_ids)
