"""Items that an ask names by their ids in place of saying them: looked up in the answers that they were part of.

Ids that we minted tell the answer. Those of an engine that speaks the caller's own API are the engine's, and are found by an index.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from msgspec import Raw

from app.gateway.responses_state.history import MAX_TURNS, FindTurn
from providers.canonical.errors import InvalidRequest, Unavailable, UnknownResponse
from providers.dialects.openai_responses.conversation_items import item_id_of, list_input_items, output_items, referenced_item_id
from providers.dialects.openai_responses.response_items import response_uuid_of

RESPONSE_ID_PREFIX = "resp_"
# The answer (its inference's id) that each of these items is known to be part of.
ItemIndex = Callable[[Sequence[str]], Awaitable[Sequence[str | Literal["several"] | None]]]

_HINT = "Send the item itself, or set `store` to false in your client, so that it sends items whole."


def unresolved_references(items: Sequence[Raw]) -> dict[int, str]:
    """By their places, the ids of items that are only named."""
    return {index: id for index, item in enumerate(items) if (id := referenced_item_id(item)) is not None}


async def resolve_references(
    items: list[Raw], unresolved_ids: dict[int, str], find: FindTurn, item_index: ItemIndex, max_bytes: int
) -> None:
    """Puts what is named in its place. Raises Malformed for what is not there, or is too much."""
    inference_ids = await _inference_ids(sorted(set(unresolved_ids.values())), item_index)
    if len(set(inference_ids.values())) > MAX_TURNS:
        raise InvalidRequest(f"These items are of more than {MAX_TURNS} answers: send them whole.", param="input")
    found: dict[str, Raw] = {}
    for inference_id in sorted(set(inference_ids.values())):
        item_ids = {id for id, owner in inference_ids.items() if owner == inference_id}
        try:
            stored = await find(RESPONSE_ID_PREFIX + inference_id)
        except UnknownResponse as fault:
            raise _not_found(min(item_ids), fault.reason) from None
        for item in (*list_input_items(stored.request), *output_items(stored.response)):
            if (id := item_id_of(item)) in item_ids and referenced_item_id(item) is None:
                found[id] = item
    size_bytes = 0
    for position, id in unresolved_ids.items():
        if id not in found:
            raise _not_found(id)
        items[position] = found[id]
        size_bytes += len(memoryview(found[id]))
        if size_bytes > max_bytes:
            raise InvalidRequest(f"The items named in `input` are more than {max_bytes} bytes: begin a new conversation.", param="input")


async def _inference_ids(ids: Sequence[str], item_index: ItemIndex) -> dict[str, str]:
    """The index is asked of all: an engine may be a gateway like this one, that mints its ids alike."""
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
            raise _not_found(id, "The engine gave several items this id, so that none can be told by it.")
        inference_ids[id] = inference_id
    return inference_ids


def _not_found(id: str, why: str = "") -> InvalidRequest:
    return InvalidRequest(f"Item with id '{id:.300}' not found. {why}{' ' if why else ''}{_HINT}", param="input")
