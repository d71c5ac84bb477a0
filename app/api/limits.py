"""GET /v1/limits: what is left of each limit about a key. POST /v1/limits/preview: what a request would take, and what would refuse it."""

import time
from typing import Any

from litestar import Request, Response, Router, get, post
from msgspec import to_builtins

from app import uuid7
from app.api.auth import whose_scope
from app.api.replies import request_headers
from app.gateway.bill import needed
from app.gateway.limits.limits import RuleState
from app.gateway.plan import plan
from app.gateway.rights import may_use
from app.gateway.serve import Gateway, tags_of
from providers.dialects.catalogue import DIALECTS
from providers.errors import UnknownModel


def routes(gateway: Gateway) -> Router:
    @get("/")
    async def show_limits(request: Request[Any, Any, Any], model: str | None = None) -> Response[dict[str, Any]]:
        caller = await whose_scope(gateway.live, request.scope)
        if model is not None and (model not in gateway.live.directory.models or not may_use(caller, model)):
            raise UnknownModel(f"There is no model {model!r:.100}.", param="model")
        states = await gateway.limits.look(caller, model, tags_of(None, dict(request.scope["headers"])))
        return _answer({"object": "list", "data": [_told(state) for state in states]})

    @post("/preview", status_code=200)
    async def preview(request: Request[Any, Any, Any]) -> Response[dict[str, Any]]:
        caller = await whose_scope(gateway.live, request.scope)
        ask = DIALECTS["openai_chat"].open(await request.body())
        planned = plan(gateway.live.directory, caller, ask.model, uuid7.mint())
        need = needed(ask, planned, gateway.settings.limits_output_tokens, time.time())
        _, input, output, tokens, cost, _ = need.amounts()
        seen = await gateway.limits.preview(caller, planned.name, tags_of(ask, dict(request.scope["headers"])), need)
        return _answer(
            {
                "object": "limits.preview",
                "model": planned.name,
                "allowed": seen.refused_by is None,
                "refused_by": seen.refused_by,
                "retry_after_s": seen.retry_after_s,
                "reserves": {
                    "requests": 1,
                    "input_tokens": input,
                    "output_tokens": output,
                    "tokens": tokens,
                    "cost_usd": None if need.cost_microusd is None else cost / 1e6,
                    "concurrency": 1,
                },
                "rules": [{**_told(state), "needs": state.needs, "wait_s": state.wait_s} for state in seen.rules],
            }
        )

    return Router("/v1/limits", route_handlers=[show_limits, preview])


def _told(state: RuleState) -> dict[str, Any]:
    told: dict[str, Any] = to_builtins(state)
    del told["needs"], told["wait_s"]
    return told


def _answer(body: dict[str, Any]) -> Response[dict[str, Any]]:
    headers = {name.decode(): value.decode() for name, value in request_headers(uuid7.mint())}
    return Response(body, headers={**headers, "cache-control": "no-store"})
