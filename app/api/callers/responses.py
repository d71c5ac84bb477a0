"""Stored responses of POST /v1/responses, in OpenAI's shape: GET, DELETE, /input_items and /cancel below /v1/responses/{id}.

A response is returned as it was first sent, with everything that `include` could add: so `include` is checked, and changes nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from litestar import Request, Response, Router, delete, get, post

from app.api.callers.authentication import authenticate_scope
from app.api.callers.caller_route import OBJECT, TEXT, TEXT_OR_NULL, CallerRoute, Schema, list_of, object_with
from app.api.server.response_headers import new_request_headers
from app.gateway.responses_state.conversations import ConversationStore, UnreadableResponse
from app.gateway.responses_state.history import InputItem
from app.store.configuration.snapshot_cache import SnapshotCache
from providers.canonical.errors import InvalidRequest
from providers.canonical.raw_json import DECODE_ERRORS

_AnyRequest = Request[Any, Any, Any]

# https://platform.openai.com/docs/api-reference/responses/input-items and the SDK's ResponseIncludable, read 2026-11.
_INCLUDABLE = (
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
)
_INCLUDE_PARAMETERS = ("include", "include[]")  # SDKs write lists with brackets
_MAX_ITEMS, _DEFAULT_ITEMS = 100, 20


def routes(snapshot_cache: SnapshotCache, conversations: ConversationStore) -> Router:
    @get("/")
    async def show_response(request: _AnyRequest, id: str) -> Response[bytes]:
        caller = await authenticate_scope(snapshot_cache, request.scope)
        parameters = _parse_parameters(request, ("stream", "starting_after", "include_obfuscation"))
        stored = await conversations.find_response(id, caller)
        if _parse_flag(parameters, "stream") or "starting_after" in parameters:
            raise InvalidRequest("This response cannot be streamed: it was not created in the background.", param="stream")
        return _respond(stored.response)

    @delete("/", status_code=200)
    async def delete_response(request: _AnyRequest, id: str) -> Response[bytes]:
        caller = await authenticate_scope(snapshot_cache, request.scope)
        _parse_parameters(request, ())
        await conversations.delete_stored(id, caller)
        return _respond(msgspec.json.encode({"id": id, "object": "response", "deleted": True}))

    @get("/input_items")
    async def list_input_items(request: _AnyRequest, id: str) -> Response[bytes]:
        caller = await authenticate_scope(snapshot_cache, request.scope)
        parameters = _parse_parameters(request, ("after", "limit", "order"))
        limit, order = _parse_limit(parameters), parameters.get("order", "desc")
        if order not in ("asc", "desc"):
            raise InvalidRequest("`order` may be asc or desc.", param="order")
        try:
            items = await conversations.list_inputs(id, caller)
            shown, has_more = paginate(items if order == "asc" else items[::-1], parameters.get("after"), limit)
            first, last = (shown[0].id, shown[-1].id) if shown else (None, None)
            shown_items = [item.to_openai() for item in shown]
        except DECODE_ERRORS:
            raise UnreadableResponse from None
        return _respond(
            msgspec.json.encode({"object": "list", "data": shown_items, "first_id": first, "last_id": last, "has_more": has_more})
        )

    @post("/cancel")
    async def cancel_response(request: _AnyRequest, id: str) -> None:
        caller = await authenticate_scope(snapshot_cache, request.scope)
        await conversations.find_response(id, caller)
        raise InvalidRequest("Cannot cancel a synchronous response: only one that is created in the background can be cancelled.")

    handlers = [show_response, delete_response, list_input_items, cancel_response]
    return Router("/v1/responses/{id:str}", route_handlers=handlers)


_PAGE: Mapping[str, Schema] = {
    "after": {"type": "string", "minLength": 1},
    "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 20},
    "order": {"type": "string", "enum": ["asc", "desc"], "default": "desc"},
}
DESCRIPTIONS: Sequence[CallerRoute] = (
    CallerRoute(
        method="GET",
        path="/v1/responses/{id}",
        id="get_response",
        tag="Stored responses",
        summary="Show a stored response",
        parameters={
            "include[]": {"type": "array", "items": TEXT},
            "stream": {"type": "string", "enum": ["false"]},
            "include_obfuscation": {"type": "boolean"},
        },
        response=object_with(id=TEXT, object=TEXT),
        errors=(404,),
    ),
    CallerRoute(
        method="DELETE",
        path="/v1/responses/{id}",
        id="delete_response",
        tag="Stored responses",
        summary="Delete a stored response",
        response=object_with(id=TEXT, object=TEXT, deleted={"type": "boolean"}),
        errors=(404,),
    ),
    CallerRoute(
        method="GET",
        path="/v1/responses/{id}/input_items",
        id="list_response_input_items",
        tag="Stored responses",
        summary="List the input of a stored response",
        parameters=_PAGE,
        response=list_of(OBJECT, object=TEXT, first_id=TEXT_OR_NULL, last_id=TEXT_OR_NULL, has_more={"type": "boolean"}),
        errors=(404,),
    ),
    CallerRoute(
        method="POST",
        path="/v1/responses/{id}/cancel",
        id="cancel_response",
        tag="Stored responses",
        summary="Cancel a response in the background",
        description="There are none: a response is created while the caller waits. So this is always an error.",
        response=None,
        described={400: "Only a response in the background can be cancelled."},
        errors=(404,),
    ),
)


def paginate(items: Sequence[InputItem], after: str | None, limit: int) -> tuple[list[InputItem], bool]:
    """One page of items, after the item `after`, and whether more follow. Raises InvalidRequest if there is no such item."""
    start = 0
    if after is not None:
        start = next((at for at, item in enumerate(items, 1) if item.id == after), 0)
        if not start:
            raise InvalidRequest(f"There is no item with id '{after[:100]}' in this response's input.", param="after")
    return list(items[start : start + limit]), start + limit < len(items)


def _parse_parameters(request: _AnyRequest, known: tuple[str, ...]) -> dict[str, str]:
    """Query parameters by name, without `include`. Raises InvalidRequest for one that is unknown or sent twice."""
    values_by_name = request.query_params.dict()
    for name in _INCLUDE_PARAMETERS:
        for each in values_by_name.pop(name, []):
            if each not in _INCLUDABLE:
                raise InvalidRequest(f"`include` may be {', '.join(_INCLUDABLE)}, not {each!r:.60}.", param="include")
    for name, values in values_by_name.items():
        if name not in known:
            raise InvalidRequest(f"Unknown parameter: '{name:.60}'.", param=name[:60])
        if len(values) > 1:
            raise InvalidRequest(f"`{name}` was sent twice.", param=name)
    return {name: values[0] for name, values in values_by_name.items()}


def _parse_limit(parameters: dict[str, str]) -> int:
    text = parameters.get("limit", str(_DEFAULT_ITEMS))
    if not (text.isascii() and text.isdigit() and len(text) < 5 and 1 <= int(text) <= _MAX_ITEMS):
        raise InvalidRequest(f"`limit` must be a whole number from 1 to {_MAX_ITEMS}.", param="limit")
    return int(text)


def _parse_flag(parameters: dict[str, str], name: str) -> bool:
    value = parameters.get(name, "false")
    if value not in ("true", "false"):
        raise InvalidRequest(f"`{name}` may be true or false.", param=name)
    return value == "true"


def _respond(body: bytes) -> Response[bytes]:
    return Response(body, media_type="application/json", headers=new_request_headers())
