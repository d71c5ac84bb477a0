"""GET /v1/limits: what is left of each limit of a key. POST /v1/limits/preview: what a request would reserve, and which rule refuses it."""

import time
from collections.abc import Sequence
from typing import Any

from litestar import Request, Response, Router, get, post
from msgspec import to_builtins

from app.api.callers.authentication import Authenticate
from app.api.callers.caller_route import OBJECT, TEXT, TEXT_OR_NULL, CallerRoute, Schema, list_of, object_with
from app.api.server.counted_body import counted_body
from app.api.server.query_parameters import read_parameters
from app.api.server.response_headers import new_request_headers
from app.domain.callers import Caller
from app.gateway.functions.function_request import FunctionRequest
from app.gateway.limits.limits import RuleState
from app.gateway.pipeline.gateway import Gateway
from app.gateway.request.caller_options import named_variant, pinned_variant
from app.gateway.request.request_headers import request_tags, resolve_episode
from app.gateway.request.reserved_fields import FUNCTION_FIELDS, function_fields
from app.gateway.routing.function_variants import write_variant
from app.gateway.routing.permissions import may_use
from app.gateway.routing.plan import choose_variant, plan
from app.gateway.state.charges import estimate_usage
from providers.canonical.errors import UnknownModel
from providers.canonical.parse_body import undecodable
from providers.canonical.raw_json import DECODE_ERRORS, Body
from providers.catalogue import DIALECTS
from providers.dialects.openai_chat import request_schema as openai_chat

PATH = "/v1/limits"


def routes(gateway: Gateway, authenticate: Authenticate, path: str = PATH) -> Router:
    @get("/")
    async def show_limits(request: Request[Any, Any, Any]) -> Response[dict[str, Any]]:
        caller = await authenticate(request)
        model = read_parameters(request.scope["query_string"], ("model",)).get("model")
        named: str | None = None
        if model is not None:
            snapshot = gateway.snapshot_cache.snapshot
            function = snapshot.functions.get(model)
            if (model not in snapshot.models and function is None) or not may_use(caller, model):
                raise UnknownModel(f"There is no model {model!r:.100}.", param="model")
            if function is not None:  # its limits are its own and those of the model that it uses
                named, model = model, function.variants[choose_variant(model, function, None)].model
        states = await gateway.limits.rule_states(caller, model, request_tags(None, dict(request.scope["headers"])), named)
        return _respond({"object": "list", "data": [_rule_to_json(state) for state in states]})

    @post("/preview", status_code=200)
    async def preview(request: Request[Any, Any, Any]) -> Response[dict[str, Any]]:
        caller = await authenticate(request)
        read_parameters(request.scope["query_string"], ())
        async with counted_body(request, gateway.body_memory, caller) as raw:
            try:
                return await _preview(request, caller, raw)
            except DECODE_ERRORS as fault:  # as inference routes do
                raise undecodable(fault) from None

    async def _preview(request: Request[Any, Any, Any], caller: Caller, raw: bytes) -> Response[dict[str, Any]]:
        inbound = await gateway.large_requests.of_team(caller.team_id).parse(DIALECTS["openai_chat"], raw)
        headers = dict(request.scope["headers"])
        episode = resolve_episode(inbound, headers, gateway.episode_ids, caller.team_id, time.time_ns() // 1000)
        tags, of_function = request_tags(inbound, headers), function_fields(inbound.body)
        planned = plan(
            gateway.snapshot_cache.snapshot,
            caller,
            inbound.model,
            episode,
            tags=tags,
            end_user=inbound.end_user,
            now_ms=gateway.snapshot_cache.to_postgres_ms(time.time_ns() // 1000),
            current_ms=gateway.snapshot_cache.current_ms,
            pinned_variant=pinned_variant(named_variant(headers), of_function.variant),
        )
        if planned.function is not None and planned.variant is not None:
            compiled = gateway.function_table.compiled(planned)
            inbound.body = Body({key: value for key, value in inbound.body.items() if key not in FUNCTION_FIELDS})
            function_request = FunctionRequest(compiled, DIALECTS["openai_chat"], inbound, of_function.input)
            large_requests = gateway.large_requests.of_team(caller.team_id)
            inbound, _ = await write_variant(large_requests, function_request, planned.variant, len(raw))
        need = estimate_usage(inbound, planned, gateway.settings.limits_output_tokens, time.time())
        _, input, output, tokens, cost, _ = need.amounts()
        result = await gateway.limits.preview(caller, planned.name, tags, need, planned.function)
        return _respond(
            {
                "object": "limits.preview",
                "model": planned.name,
                "allowed": result.refused_by is None,
                "refused_by": result.refused_by,
                "retry_after_s": result.retry_after_s,
                "reserves": {
                    "requests": 1,
                    "input_tokens": input,
                    "output_tokens": output,
                    "tokens": tokens,
                    "cost_usd": None if need.cost_microusd is None else cost / 1e6,
                    "concurrency": 1,
                },
                "rules": [
                    {**_rule_to_json(state), "needed": state.needed, "wait_s": state.wait_s, "wait_kind": state.wait_kind}
                    for state in result.rules
                ],
            }
        )

    return Router(path, route_handlers=[show_limits, preview])


_RULES: Schema = {"type": "array", "items": OBJECT}
DESCRIPTIONS: Sequence[CallerRoute] = (
    CallerRoute(
        method="GET",
        path="/v1/limits",
        id="list_limits",
        tag="Callers",
        summary="Show what is left of the limits of a key",
        parameters={"model": {**TEXT, "description": "Also the limits of this model or function."}},
        response=list_of(OBJECT, object=TEXT),
        errors=(404,),
    ),
    CallerRoute(
        method="POST",
        path="/v1/limits/preview",
        id="preview_limits",
        tag="Callers",
        summary="Show what a request would reserve, and which limit would refuse it",
        description="The body is a request of /v1/chat/completions, which is not sent to a model.",
        prefix="Chat",
        body=[openai_chat.Request],
        example={"model": "sandbox", "messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 50},
        response=object_with(object=TEXT, model=TEXT, allowed={"type": "boolean"}, refused_by=TEXT_OR_NULL, reserves=OBJECT, rules=_RULES),
        errors=(404, 408, 413, 422, 429),
    ),
)


def _rule_to_json(state: RuleState) -> dict[str, Any]:
    fields: dict[str, Any] = to_builtins(state)
    del fields["needed"], fields["wait_s"], fields["wait_kind"]
    return fields


def _respond(body: dict[str, Any]) -> Response[dict[str, Any]]:
    return Response(body, headers={**new_request_headers(), "cache-control": "no-store"})
