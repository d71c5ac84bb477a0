"""POST /v1/responses/compact: the request for a compaction as an item of an ordinary one, and its response in the shape of this route.

Source: openai-python 3, types/responses/response_compact_params.py and compacted_response.py, read 2026-11.
"""

from typing import Any

import msgspec
from msgspec import Raw

from app.domain.callers import Caller
from app.gateway.large_body.request_body import RequestBody
from app.gateway.pipeline.gateway import Gateway
from app.gateway.state.context import RequestContext
from app.gateway.state.stages import admitted_of
from providers.canonical.errors import InvalidRequest
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body
from providers.dialect import CallerDialect
from providers.dialects.openai_responses import list_input_items
from providers.dialects.openai_responses.input_items import ContinuedInput
from providers.dialects.openai_responses.item_ids import derive_item_id

_TRIGGER = Raw(b'{"type":"compaction_trigger"}')
_fields_decoder = msgspec.json.Decoder(dict[str, Any])


class CompactForm:
    """A form of the route of Responses: see InferenceRoute."""

    dialect: CallerDialect | None = None

    def __init__(self, gateway: Gateway) -> None:
        self._large_requests = gateway.large_requests

    async def read(self, raw: bytes, context: RequestContext, caller: Caller) -> bytes:
        """The body of an ordinary request. Raises InvalidRequest, DECODE_ERRORS."""
        return await RequestBody(raw, self._large_requests, caller.team_id).run(_request_compaction, raw)

    async def write(self, context: RequestContext, raw: bytes, response: bytes) -> bytes:
        """The compaction: the user's messages, and the item with the summary. `raw` is the body that read() gave."""
        admitted = admitted_of(context.stage)
        if admitted is None:  # of a response that is sent once more
            assert context.key_holder is not None
            body = RequestBody(raw, self._large_requests, context.key_holder.team_id)
            return await body.run(_write_compaction, raw, response)
        body = RequestBody(raw, self._large_requests, admitted.caller.team_id)
        return await body.run(_write_compaction, admitted.request.body, response)


def _request_compaction(raw: bytes) -> bytes:
    body = Body.read(raw)
    if body.has_value("stream") and body.value("stream"):
        raise InvalidRequest("A compaction is not streamed: leave `stream` out.", param="stream")
    if not body.has_value("input") and not body.has_value("previous_response_id"):
        raise InvalidRequest("There is nothing to compact: send `input`, or `previous_response_id`.", param="input")
    try:
        given = [] if body.get("input", NULL) == NULL else list_input_items(body)
    except msgspec.ValidationError as fault:
        raise InvalidRequest(f"`input`: {fault}.", param="input") from None
    items = [item for item in given if bytes(item) != bytes(_TRIGGER)]
    return Body({**body, "input": [*items, _TRIGGER], "store": False, "stream": False}).write()


def _write_compaction(sent: bytes | Body, response: bytes) -> bytes:
    items = list_input_items(Body.read(sent) if isinstance(sent, bytes) else sent)
    summary_at = items.summary_at if isinstance(items, ContinuedInput) else None
    of_user = [message for at, item in enumerate(items) if at != summary_at and (message := _read_user_message(item, at))]
    fields = Body.read(response)
    output = [*of_user, *msgspec.json.decode(fields["output"], type=list[Raw])]
    head = {"id": fields["id"], "object": "response.compaction", "created_at": fields["created_at"]}
    return msgspec.json.encode({**head, "output": output, "usage": fields["usage"]})


def _read_user_message(raw: Raw, at: int) -> dict[str, Any] | None:
    """A message of the user's as an output has it; None for another item."""
    try:
        item = _fields_decoder.decode(raw)
    except DECODE_ERRORS:
        return None
    if item.get("role") != "user":
        return None
    content = item.get("content")
    parts = [{"type": "input_text", "text": content}] if isinstance(content, str) else content
    id = item["id"] if isinstance(item.get("id"), str) else derive_item_id("message", f"{at}/{content}")
    return {"id": id, "type": "message", "status": "completed", "role": "user", "content": parts}
