"""Item references: items that a request names by id instead of sending them, looked up in the responses that hold them.

Ids that the gateway created contain the id of the response. Ids that an engine created are found through an index.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Literal

from msgspec import Raw

from app.gateway.large_body.large_requests import TeamLargeRequests
from app.gateway.responses_state.history import MAX_TURNS, ConversationTurn, FindTurn
from providers.canonical.errors import InvalidRequest, Unavailable, UnknownResponse
from providers.dialects.openai_responses.input_items import list_input_items
from providers.dialects.openai_responses.item_ids import item_id_of, referenced_item_id, response_uuid_of
from providers.dialects.openai_responses.stored_responses import output_items

RESPONSE_ID_PREFIX = "resp_"
# Item ids -> the inference whose response holds each; "several": more than one does; None: not known.
ItemIndex = Callable[[Sequence[str]], Awaitable[Sequence[str | Literal["several"] | None]]]

_HINT = "Send the item itself, or set `store` to false in your client, so that it sends full items."


def unresolved_references(items: Sequence[Raw]) -> dict[int, str]:
    """Position -> id of the items that are references."""
    return {index: id for index, item in enumerate(items) if (id := referenced_item_id(item)) is not None}


async def resolve_references(
    items: list[Raw],
    unresolved_ids: dict[int, str],
    find: FindTurn,
    item_index: ItemIndex,
    max_bytes: int,
    large_requests: TeamLargeRequests,
) -> None:
    """Replaces references in `items` by what they name. Raises InvalidRequest if an item is not found or they are too large together.

    `large_requests` reads large turns.
    """
    inference_ids = await _inference_ids(sorted(set(unresolved_ids.values())), item_index)
    if len(set(inference_ids.values())) > MAX_TURNS:
        raise InvalidRequest(f"These items come from more than {MAX_TURNS} responses: send the items themselves.", param="input")
    found: dict[str, Raw] = {}
    for inference_id in sorted(set(inference_ids.values())):
        item_ids = {id for id, owner in inference_ids.items() if owner == inference_id}
        try:
            stored = await find(RESPONSE_ID_PREFIX + inference_id)
        except UnknownResponse as fault:
            raise _not_found(min(item_ids), fault.reason) from None
        found |= await large_requests.run_if_large(stored.size_bytes, _find_items, stored, item_ids)
    size_bytes = 0
    for position, id in unresolved_ids.items():
        if id not in found:
            raise _not_found(id)
        items[position] = found[id]
        size_bytes += len(memoryview(found[id]))
        if size_bytes > max_bytes:
            raise InvalidRequest(f"The items named in `input` are more than {max_bytes} bytes: begin a new conversation.", param="input")


def _find_items(turn: ConversationTurn, item_ids: Collection[str]) -> dict[str, Raw]:
    """Those of the items that the turn has, by id."""
    return {
        id: item.copy()  # without the rest of the response
        for item in (*list_input_items(turn.request), *output_items(turn.response))
        if (id := item_id_of(item)) is not None and id in item_ids and referenced_item_id(item) is None
    }


async def _inference_ids(ids: Sequence[str], item_index: ItemIndex) -> dict[str, str]:
    """Item id -> inference. All ids are looked up in the index: an engine may be another Narthex, whose ids look like ours."""
    inference_ids = {id: inference_id for id in ids if (inference_id := response_uuid_of(id)) is not None}
    try:
        indexed = await item_index(ids)
    except Unavailable:
        if len(inference_ids) < len(ids):
            raise
        return inference_ids
    for id, inference_id in zip(ids, indexed, strict=True):
        if inference_id is None and id in inference_ids:
            continue
        if inference_id is None:
            raise _not_found(id)
        if inference_id == "several":
            raise _not_found(id, "The engine gave several items this id, so it names none of them.")
        inference_ids[id] = inference_id
    return inference_ids


def _not_found(id: str, why: str = "") -> InvalidRequest:
    return InvalidRequest(f"Item with id '{id:.300}' not found. {why}{' ' if why else ''}{_HINT}", param="input")
