"""Answers of POST /v1/responses, to be read again and deleted, in OpenAI's shape: below their ids GET, DELETE, /input_items, /cancel.

They are told as they were answered, with all that `include` could ask for: so it is checked, and changes nothing.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from litestar import Request, Response, Router, delete, get, post

from app import uuid7
from app.api.auth import whose_scope
from app.api.replies import request_headers
from app.gateway.conversations import Conversations
from app.gateway.turns import Listed
from app.store.live import Live
from providers.errors import Malformed

_Asked = Request[Any, Any, Any]

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
_INCLUDE = ("include", "include[]")  # SDKs write lists with brackets
_MOST_ITEMS, _USUAL_ITEMS = 100, 20


def routes(live: Live, conversations: Conversations) -> Router:
    @get("/")
    async def show_response(request: _Asked, id: str) -> Response[bytes]:
        caller = await whose_scope(live, request.scope)
        said = _read(request, ("stream", "starting_after", "include_obfuscation"))
        stored = await conversations.find(id, caller)
        if _is_true(said, "stream") or "starting_after" in said:
            raise Malformed("This response cannot be streamed: it was not created in the background.", param="stream")
        return _answer(stored.response)

    @delete("/", status_code=200)
    async def delete_response(request: _Asked, id: str) -> Response[bytes]:
        caller = await whose_scope(live, request.scope)
        _read(request, ())
        await conversations.delete(id, caller)
        return _answer(msgspec.json.encode({"id": id, "object": "response", "deleted": True}))

    @get("/input_items")
    async def list_input_items(request: _Asked, id: str) -> Response[bytes]:
        caller = await whose_scope(live, request.scope)
        said = _read(request, ("after", "limit", "order"))
        limit, order = _limit(said), said.get("order", "desc")
        if order not in ("asc", "desc"):
            raise Malformed("`order` may be asc or desc.", param="order")
        items = await conversations.inputs(id, caller)
        shown, has_more = page(items if order == "asc" else items[::-1], said.get("after"), limit)
        first, last = (shown[0].id, shown[-1].id) if shown else (None, None)
        told = [item.told() for item in shown]
        return _answer(msgspec.json.encode({"object": "list", "data": told, "first_id": first, "last_id": last, "has_more": has_more}))

    @post("/cancel")
    async def cancel_response(request: _Asked, id: str) -> None:
        caller = await whose_scope(live, request.scope)
        await conversations.find(id, caller)
        raise Malformed("Cannot cancel a synchronous response: only one that is created in the background can be cancelled.")

    handlers = [show_response, delete_response, list_input_items, cancel_response]
    return Router("/v1/responses/{id:str}", route_handlers=handlers)


def page(items: Sequence[Listed], after: str | None, limit: int) -> tuple[list[Listed], bool]:
    """The items after one, and whether there are more behind them. Raises Malformed if there is no such item."""
    start = 0
    if after is not None:
        start = next((at for at, item in enumerate(items, 1) if item.id == after), 0)
        if not start:
            raise Malformed(f"There is no item with id '{after[:100]}' in this response's input.", param="after")
    return list(items[start : start + limit]), start + limit < len(items)


def _read(request: _Asked, known: tuple[str, ...]) -> dict[str, str]:
    """Parameters by name. Raises Malformed for what is not known, or there twice; several may be included."""
    said = request.query_params.dict()
    for name in _INCLUDE:
        for each in said.pop(name, []):
            if each not in _INCLUDABLE:
                raise Malformed(f"`include` may be {', '.join(_INCLUDABLE)}; {each!r:.60} is none.", param="include")
    for name, values in said.items():
        if name not in known:
            raise Malformed(f"Unknown parameter: '{name:.60}'.", param=name[:60])
        if len(values) > 1:
            raise Malformed(f"`{name}` is there twice.", param=name)
    return {name: values[0] for name, values in said.items()}


def _limit(said: dict[str, str]) -> int:
    text = said.get("limit", str(_USUAL_ITEMS))
    if not (text.isascii() and text.isdigit() and len(text) < 5 and 1 <= int(text) <= _MOST_ITEMS):
        raise Malformed(f"`limit` must be a whole number from 1 to {_MOST_ITEMS}.", param="limit")
    return int(text)


def _is_true(said: dict[str, str], name: str) -> bool:
    value = said.get(name, "false")
    if value not in ("true", "false"):
        raise Malformed(f"`{name}` may be true or false.", param=name)
    return value == "true"


def _answer(body: bytes) -> Response[bytes]:
    headers = {name.decode(): value.decode() for name, value in request_headers(uuid7.mint())}
    return Response(body, media_type="application/json", headers=headers)
